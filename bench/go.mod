module github.com/mcplisten/mcplisten/bench

go 1.25.0

require github.com/mcplisten/mcplisten v0.0.0

replace github.com/mcplisten/mcplisten => ../
