module drover/daemons/go-http

go 1.26.0
