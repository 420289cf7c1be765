module drover/daemons/go-issue-client

go 1.24.0
