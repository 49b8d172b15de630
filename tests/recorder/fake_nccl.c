/* A libnccl.so.2 for tests: it moves no data, and knows only what its callers hand over.
 *
 * As in NCCL the strong symbols are pncclX, and ncclX are weak aliases of them. FAKE_VERSION (default 23203) leaves out what NCCL of that
 * version does not have. Environment:
 *   FAKE_NCCL_LOG=FILE             one line per call: name, then all arguments in hexadecimal, each 8 bytes of an id on their own
 *   FAKE_NCCL_RESULT=NAME:NUMBER   what this function returns
 *   FAKE_NCCL_DELAY=NAME:RANK:MS   how long it takes; RANK is compared with the variable RANK, -1 is all
 *   FAKE_NCCL_HANG=NAME:RANK       it does not come back
 *   FAKE_NCCL_NONBLOCKING=1        communicators are made with result 7, and split ones are complete when their parent is asked for errors
 *   FAKE_NCCL_NONBLOCKING=MS:RESULT   those whose configuration says so do not block: a thread makes them within so many ms, and what makes
 *                                  them from other ones returns RESULT: 7, as NCCL documents, or 0, as some of its versions do
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include "fake_communicators.h"
#include <fcntl.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION 23203
#endif

typedef unsigned long long U;

static int log_fd = -1, is_quiet = 1;
static char result_of[64], delay_of[64], hang_of[64];
static int result, delay_rank = -1, delay_ms, hang_rank = -1, my_rank = -1;

__attribute__((constructor)) static void begin(void) {
    char *text;
    if ((text = getenv("FAKE_NCCL_LOG"))) log_fd = open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if ((text = getenv("FAKE_NCCL_RESULT"))) sscanf(text, "%63[^:]:%d", result_of, &result);
    if ((text = getenv("FAKE_NCCL_DELAY"))) sscanf(text, "%63[^:]:%d:%d", delay_of, &delay_rank, &delay_ms);
    if ((text = getenv("FAKE_NCCL_HANG"))) sscanf(text, "%63[^:]:%d", hang_of, &hang_rank);
    if ((text = getenv("RANK"))) my_rank = atoi(text);
    begin_communicators();
    is_quiet = log_fd < 0 && !*result_of && !*delay_of && !*hang_of;
}

static int is_mine(int rank) { return rank == -1 || rank == my_rank; }

__attribute__((noinline)) static int note(const char *name, const U *values, size_t count) {
    if (is_quiet) return 0;
    char line[1024];
    int length = snprintf(line, sizeof line, "%s", name);
    for (size_t i = 0; i < count; i++) length += snprintf(line + length, sizeof line - length, " %llx", values[i]);
    line[length++] = '\n';
    if (log_fd >= 0 && write(log_fd, line, length) != length) abort();
    if (!strcmp(name, delay_of) && is_mine(delay_rank)) usleep(1000 * delay_ms);
    while (!strcmp(name, hang_of) && is_mine(hang_rank)) pause();
    return strcmp(name, result_of) ? 0 : result;
}

#define NOTE(name, ...) note(name, (U[]){__VA_ARGS__}, sizeof((U[]){__VA_ARGS__}) / sizeof(U))
#define WORDS(id) (id)[0], (id)[1], (id)[2], (id)[3], (id)[4], (id)[5], (id)[6], (id)[7], (id)[8], (id)[9], (id)[10], (id)[11], (id)[12], (id)[13], (id)[14], (id)[15]
#define ALIAS(name, ...) int name(__VA_ARGS__) __attribute__((weak, alias("p" #name)));
/* A function of a communicator, and one that moves elements of a type. */
#define IT(name, parameters, ...) \
    int p##name parameters { int noted = NOTE(#name, __VA_ARGS__), error = refused(#name, comm); return failed(noted ? noted : error); } \
    int name parameters __attribute__((weak, alias("p" #name)));
#define OP(name, parameters, ...) \
    int p##name parameters { int noted = NOTE(#name, __VA_ARGS__), error = refused_type(#name, comm, type); return failed(noted ? noted : error); } \
    int name parameters __attribute__((weak, alias("p" #name)));
#define V (U)

static int refused_type(const char *function, P comm, int type) {
    int error = refused(function, comm);
    if (!error && (type < 0 || type > 11)) error = INVALID_ARGUMENT;
    return !error && ((struct comm *)comm)->is_revoked ? INVALID_USAGE : error;
}

__attribute__((unused)) static int registered(const char *function, int noted, P comm, P *handle) {
    int error = refused(function, comm);
    if (!noted && !error) *handle = comm;
    return failed(noted ? noted : error);
}

int pncclGetVersion(int *version) { *version = FAKE_VERSION; return 0; }
ALIAS(ncclGetVersion, int *version)
int pncclCommCount(P comm, int *count) {
    int error = refused("ncclCommCount", comm);
    if (!error) *count = ((struct comm *)comm)->size;
    return error;
}
ALIAS(ncclCommCount, P comm, int *count)
int pncclCommUserRank(P comm, int *rank) {
    int error = refused("ncclCommUserRank", comm);
    if (!error) *rank = ((struct comm *)comm)->rank;
    return error;
}
ALIAS(ncclCommUserRank, P comm, int *rank)
int pncclCommGetAsyncError(P handle, int *error) {
    struct comm *comm = living("ncclCommGetAsyncError", handle);
    if (!comm) return INVALID_ARGUMENT;
    if (comm->asked_for.place) finish(&comm->asked_for);
    comm->asked_for = (struct job){0};
    *error = __atomic_load_n(&comm->running, __ATOMIC_ACQUIRE) ? IN_PROGRESS : 0;
    return 0;
}
ALIAS(ncclCommGetAsyncError, P comm, int *error)

/* CUDA's: one stream is always being captured. */
int cudaStreamIsCapturing(P stream, int *status) { *status = stream == (P)81; return 0; }

int pncclGetUniqueId(Id *id) { memset(id, 7, sizeof *id); return NOTE("ncclGetUniqueId", V id); }
ALIAS(ncclGetUniqueId, Id *id)
int pncclCommInitRank(P *comm, int size, Id id, int rank) {
    U words[16];
    memcpy(words, &id, sizeof id);
    return make(NOTE("ncclCommInitRank", V comm, size, WORDS(words), rank), comm, rank, size, NULL);
}
ALIAS(ncclCommInitRank, P *comm, int size, Id id, int rank)
int pncclCommInitRankConfig(P *comm, int size, Id id, int rank, P config) {
    U words[16];
    memcpy(words, &id, sizeof id);
    return make(NOTE("ncclCommInitRankConfig", V comm, size, WORDS(words), rank, V config), comm, rank, size, config);
}
ALIAS(ncclCommInitRankConfig, P *comm, int size, Id id, int rank, P config)
int pncclCommInitAll(P *comms, int count, const int *devices) {
    int noted = NOTE("ncclCommInitAll", V comms, count, V devices);
    for (int i = 0; !noted && i < count; i++) comms[i] = new_comm(i, count, 1);
    return noted;
}
ALIAS(ncclCommInitAll, P *comms, int count, const int *devices)
int pncclCommSplit(P comm, int color, int key, P *made, P config) {
    int noted = NOTE("ncclCommSplit", V comm, V(unsigned)color, key, V made, V config), error = refused("ncclCommSplit", comm);
    return derive(noted ? noted : error, comm, made, key, comm ? ((struct comm *)comm)->size / 2 : 0, config, color != -1, 0);
}
ALIAS(ncclCommSplit, P comm, int color, int key, P *made, P config)
IT(ncclCommFinalize, (P comm), V comm)
int pncclCommDestroy(P comm) { return destroy("ncclCommDestroy", NOTE("ncclCommDestroy", V comm), comm, 0); }
ALIAS(ncclCommDestroy, P comm)
int pncclCommAbort(P comm) { return destroy("ncclCommAbort", NOTE("ncclCommAbort", V comm), comm, 1); }
ALIAS(ncclCommAbort, P comm)
int pncclGroupStart(void) { depth++; return NOTE("ncclGroupStart", 0); }
ALIAS(ncclGroupStart, void)
int pncclGroupEnd(void) {
    if (depth == 0) return INVALID_USAGE;
    int result = --depth ? 0 : end_group(), noted = NOTE("ncclGroupEnd", 0);
    return noted ? noted : result;
}
ALIAS(ncclGroupEnd, void)
int pncclRedOpCreatePreMulSum(int *op, P scalar, int type, int residence, P comm) {
    int noted = NOTE("ncclRedOpCreatePreMulSum", V op, V scalar, type, residence, V comm), error = refused_type("ncclRedOpCreatePreMulSum", comm, type);
    if (!error) *op = 1000;
    return noted ? noted : error;
}
ALIAS(ncclRedOpCreatePreMulSum, int *op, P scalar, int type, int residence, P comm)
IT(ncclRedOpDestroy, (int op, P comm), op, V comm)
OP(ncclAllReduce, (P from, P to, size_t count, int type, int op, P comm, P stream), V from, V to, count, type, op, V comm, V stream)
OP(ncclReduceScatter, (P from, P to, size_t count, int type, int op, P comm, P stream), V from, V to, count, type, op, V comm, V stream)
OP(ncclReduce, (P from, P to, size_t count, int type, int op, int root, P comm, P stream), V from, V to, count, type, op, root, V comm, V stream)
OP(ncclAllGather, (P from, P to, size_t count, int type, P comm, P stream), V from, V to, count, type, V comm, V stream)
OP(ncclBroadcast, (P from, P to, size_t count, int type, int root, P comm, P stream), V from, V to, count, type, root, V comm, V stream)
/* As NCCL's: by its own public function, which the linker may lead elsewhere. */
int pncclBcast(P buffer, size_t count, int type, int root, P comm, P stream) {
    int noted = NOTE("ncclBcast", V buffer, count, type, root, V comm, V stream);
    return noted ? failed(noted) : ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ALIAS(ncclBcast, P buffer, size_t count, int type, int root, P comm, P stream)
OP(ncclSend, (P from, size_t count, int type, int peer, P comm, P stream), V from, count, type, peer, V comm, V stream)
OP(ncclRecv, (P to, size_t count, int type, int peer, P comm, P stream), V to, count, type, peer, V comm, V stream)

#if FAKE_VERSION >= 21900
int pncclMemAlloc(P *memory, size_t size) { *memory = malloc(size); return NOTE("ncclMemAlloc", V memory, size); }
ALIAS(ncclMemAlloc, P *memory, size_t size)
int pncclMemFree(P memory) { int noted = NOTE("ncclMemFree", V memory); free(memory); return noted; }
ALIAS(ncclMemFree, P memory)
int pncclCommRegister(P comm, P memory, size_t size, P *handle) { return registered("ncclCommRegister", NOTE("ncclCommRegister", V comm, V memory, size, V handle), comm, handle); }
ALIAS(ncclCommRegister, P comm, P memory, size_t size, P *handle)
IT(ncclCommDeregister, (P comm, P handle), V comm, V handle)
#endif
#if FAKE_VERSION >= 22200
int pncclGroupSimulateEnd(P info) { depth -= depth > 0; return NOTE("ncclGroupSimulateEnd", V info); }
ALIAS(ncclGroupSimulateEnd, P info)
#endif
#if FAKE_VERSION >= 22300
int pncclCommInitRankScalable(P *comm, int size, int rank, int ids, Id *id, P config) {
    U words[16];
    memcpy(words, id, sizeof *id);
    return make(NOTE("ncclCommInitRankScalable", V comm, size, rank, ids, WORDS(words), V config), comm, rank, size, config);
}
ALIAS(ncclCommInitRankScalable, P *comm, int size, int rank, int ids, Id *id, P config)
#endif
#if FAKE_VERSION >= 22700
int pncclCommShrink(P comm, int *without, int count, P *made, P config, int flags) {
    int noted = NOTE("ncclCommShrink", V comm, V without, count, V made, V config, flags), error = refused("ncclCommShrink", comm);
    struct comm *parent = comm;
    return derive(noted ? noted : error, comm, made, comm ? parent->rank : 0, comm ? parent->size - count : 0, config, 1, 0);
}
ALIAS(ncclCommShrink, P comm, int *without, int count, P *made, P config, int flags)
int pncclCommWindowRegister(P comm, P memory, size_t size, P *window, int flags) {
    return registered("ncclCommWindowRegister", NOTE("ncclCommWindowRegister", V comm, V memory, size, V window, flags), comm, window);
}
ALIAS(ncclCommWindowRegister, P comm, P memory, size_t size, P *window, int flags)
IT(ncclCommWindowDeregister, (P comm, P window), V comm, V window)
#endif
#if FAKE_VERSION >= 22800
OP(ncclAlltoAll, (P from, P to, size_t count, int type, P comm, P stream), V from, V to, count, type, V comm, V stream)
OP(ncclGather, (P from, P to, size_t count, int type, int root, P comm, P stream), V from, V to, count, type, root, V comm, V stream)
OP(ncclScatter, (P from, P to, size_t count, int type, int root, P comm, P stream), V from, V to, count, type, root, V comm, V stream)
#endif
#if FAKE_VERSION >= 22900
OP(ncclPutSignal, (P from, size_t count, int type, int peer, P window, size_t offset, int signal, int context, unsigned flags, P comm, P stream),
   V from, count, type, peer, V window, offset, signal, context, flags, V comm, V stream)
IT(ncclSignal, (int peer, int signal, int context, unsigned flags, P comm, P stream), peer, signal, context, flags, V comm, V stream)
IT(ncclWaitSignal, (int count, P signals, P comm, P stream), count, V signals, V comm, V stream)
int pncclCommGrow(P comm, int size, const Id *id, int rank, P *made, P config) {
    int noted = NOTE("ncclCommGrow", V comm, size, V id, V(unsigned)rank, V made, V config), error = comm ? refused("ncclCommGrow", comm) : 0;
    return derive(noted ? noted : error, comm, made, comm ? ((struct comm *)comm)->rank : rank, size, config, 1, 1);
}
ALIAS(ncclCommGrow, P comm, int size, const Id *id, int rank, P *made, P config)
int pncclCommGetUniqueId(P comm, Id *id) { memset(id, 9, sizeof *id); return NOTE("ncclCommGetUniqueId", V comm, V id); }
ALIAS(ncclCommGetUniqueId, P comm, Id *id)
int pncclCommRevoke(P comm, int flags) {
    int noted = NOTE("ncclCommRevoke", V comm, flags), error = refused("ncclCommRevoke", comm);
    if (!noted && !error) ((struct comm *)comm)->is_revoked = 1;
    return noted ? noted : error;
}
ALIAS(ncclCommRevoke, P comm, int flags)
IT(ncclCommSuspend, (P comm, int flags), V comm, flags)
IT(ncclCommResume, (P comm), V comm)
#endif
#if FAKE_VERSION >= 23100
OP(ncclAllReduceConfig, (P from, P to, size_t count, int type, int op, P comm, P stream, P config), V from, V to, count, type, op, V comm, V stream, V config)
OP(ncclReduceScatterConfig, (P from, P to, size_t count, int type, int op, P comm, P stream, P config), V from, V to, count, type, op, V comm, V stream, V config)
OP(ncclReduceConfig, (P from, P to, size_t count, int type, int op, int root, P comm, P stream, P config), V from, V to, count, type, op, root, V comm, V stream, V config)
OP(ncclAllGatherConfig, (P from, P to, size_t count, int type, P comm, P stream, P config), V from, V to, count, type, V comm, V stream, V config)
OP(ncclBroadcastConfig, (P from, P to, size_t count, int type, int root, P comm, P stream, P config), V from, V to, count, type, root, V comm, V stream, V config)
OP(ncclAlltoAllConfig, (P from, P to, size_t count, int type, P comm, P stream, P config), V from, V to, count, type, V comm, V stream, V config)
OP(ncclGatherConfig, (P from, P to, size_t count, int type, int root, P comm, P stream, P config), V from, V to, count, type, root, V comm, V stream, V config)
OP(ncclScatterConfig, (P from, P to, size_t count, int type, int root, P comm, P stream, P config), V from, V to, count, type, root, V comm, V stream, V config)
#endif
