/*
 * cuda.h in the form that gorgonia.org/cu v0.9.6 needs, with CUDA 12 or 13.
 *
 * CUDA 13 changed the parameters of five functions. libcuda still exports the
 * earlier versions, which this file declares. This folder must come first on the
 * include path: see doc.go of the package.
 */
#ifndef QUIVER_CUDA_H
#define QUIVER_CUDA_H

#include_next <cuda.h>

#if CUDA_VERSION >= 13000

#undef cuCtxCreate
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuGraphAddDependencies
#undef cuGraphGetEdges

#ifdef __cplusplus
extern "C" {
#endif

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t count, CUmem_advise advice, CUdevice device);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t count, CUdevice device, CUstream stream);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);

#ifdef __cplusplus
}
#endif

#define cuCtxCreate cuCtxCreate_v2

#endif
#endif
