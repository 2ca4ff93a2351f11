module github.com/quiver-gpu/quiver/beam

go 1.26.0

require github.com/quiver-gpu/quiver v0.0.0

require github.com/apache/beam/sdks/v2 v2.77.0 // indirect

replace github.com/quiver-gpu/quiver => ../
