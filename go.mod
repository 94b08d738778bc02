module github.com/mcplisten/mcplisten

go 1.25.0
