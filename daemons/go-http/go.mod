module drover/daemons/go-http

go 1.24.0
