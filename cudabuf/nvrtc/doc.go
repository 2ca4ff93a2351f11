// Package nvrtc compiles CUDA C++ while the program runs, to an image for
// cudabuf's Device.LoadModule.
//
// NVIDIA's run-time compiler, libnvrtc, is opened when it is first needed; the
// program needs neither cgo nor a CUDA toolkit to be built, and no GPU to
// compile. Where the library is absent the error is [ErrNotFound], and says how
// to get it. libnvrtc is found in the dynamic loader's path, in a CUDA toolkit
// (CUDA_HOME, CUDA_PATH, /usr/local/cuda), in an active Python or conda
// environment, or at the path in the environment variable QUIVER_LIBNVRTC.
//
// [Compile] compiles each time; a [Cache] keeps what it compiled in a directory.
// A [Source] says for which architecture to compile, and [Arch] which one suits
// a GPU.
package nvrtc
