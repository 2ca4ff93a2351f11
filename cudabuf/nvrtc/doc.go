// Package nvrtc compiles CUDA C++ at run time to an image for cudabuf's
// Device.LoadModule.
//
// NVIDIA's run-time compiler, libnvrtc, is opened when it is first used. A
// program needs neither cgo nor a CUDA toolkit to build, and no GPU to compile.
// The library is searched in the dynamic loader's path, in a CUDA toolkit
// (CUDA_HOME, CUDA_PATH, /usr/local/cuda), and in an active Python or conda
// environment. The environment variable QUIVER_LIBNVRTC overrides the search.
// Without the library, errors wrap [ErrNotFound].
//
// [Compile] compiles each time. A [Cache] keeps images in a directory. A
// [Source] names its architecture, and [Arch] chooses the one for a GPU.
package nvrtc
