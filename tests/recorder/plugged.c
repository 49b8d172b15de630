/* A library as plugins are: it is opened, keeps something for each thread that calls it, calls NCCL, and is closed again.
 *
 * What it keeps is under a key, not in memory of the linker's: for that the C library frees memory when a thread next uses any, which a signal
 * that comes meanwhile does a second time.
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>
#include <pthread.h>

static pthread_key_t calls;

__attribute__((constructor)) static void opened(void) { pthread_key_create(&calls, NULL); }
__attribute__((destructor)) static void closed(void) { pthread_key_delete(calls); }

int plugged(P comm, int is_by_handle) {
    P nccl = is_by_handle ? dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD) : RTLD_DEFAULT;
    int (*reduce)(P, P, size_t, int, int, P, P) = (__typeof__(reduce))dlsym(nccl, "ncclAllReduce");
    size_t call = (size_t)pthread_getspecific(calls) + 1;
    pthread_setspecific(calls, (P)call);
    int result = reduce ? reduce(0, 0, call, 7, 0, comm, 0) : -1;
    if (is_by_handle) dlclose(nccl);
    return result;
}
