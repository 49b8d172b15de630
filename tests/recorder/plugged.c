/* A library as plugins are: it is opened, keeps something for each thread that calls it, calls NCCL, and is closed again. */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>

static __thread int calls;

int plugged(P comm, int is_by_handle) {
    P nccl = is_by_handle ? dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD) : RTLD_DEFAULT;
    int (*reduce)(P, P, size_t, int, int, P, P) = (__typeof__(reduce))dlsym(nccl, "ncclAllReduce");
    int result = reduce ? reduce(0, 0, ++calls, 7, 0, comm, 0) : -1;
    if (is_by_handle) dlclose(nccl);
    return result;
}
