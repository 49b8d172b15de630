/* A job that does everything at once that jobs do: threads, communicators of all kinds, groups, errors, forks, signals, cancelled threads and
 * libraries that come and go; a profiler plugin gets events meanwhile.
 *
 *   stress SEED SECONDS
 *
 * A seed says all that it does, and the made NCCL's answers depend on nothing else, so what it prints, and its exit code, are the same with
 * whatever is loaded into it, however long things take: a job of so many seconds does a fixed amount of work, which takes about that long.
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long U;
enum { WORKERS = 6, LIVE = 12, STEPS = 60, ROUNDS_PER_SECOND = 80, RESULTS = 10 };

/* What is counted, by its result. */
#define ALL(each) each(operation) each(group) each(init) each(split) each(splits) each(shrink) each(grow) each(all) each(finalize) each(destroy) \
    each(abort) each(revoke) each(register) each(memory) each(reduction) each(id) each(nobody) each(plugged) each(answer) each(child) each(spawn)
#define AS_ENUM(name) OF_##name,
#define AS_TEXT(name) #name,
enum { ALL(AS_ENUM) KINDS };
static const char *const names[] = {ALL(AS_TEXT)};

struct sum { U digest, counts[KINDS * RESULTS]; };
struct worker { U random; P comms[LIVE]; int count; struct sum sum; };

void *profile(void *seed);

static P world;
static struct worker workers[WORKERS];
static volatile sig_atomic_t is_handler_refused;
static int is_done;

static U next(struct worker *worker) {
    U z = worker->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
static int below(struct worker *worker, int end) { return next(worker) % end; }

static int tally(struct worker *worker, int kind, int result) {
    worker->sum.counts[kind * RESULTS + (result < 0 || result >= RESULTS ? RESULTS - 1 : result)]++;
    worker->sum.digest = (worker->sum.digest ^ (kind * 16 + result)) * 0x100000001b3ull;
    return result;
}

static void add(struct sum *to, const struct sum *from) {
    to->digest = to->digest * 31 + from->digest;
    for (int i = 0; i < KINDS * RESULTS; i++) to->counts[i] += from->counts[i];
}

static int wait_for(P comm) {
    int error = 7;
    while (!ncclCommGetAsyncError(comm, &error) && error == 7) usleep(50);
    return error;
}

static P some(struct worker *worker) { return worker->count ? worker->comms[below(worker, worker->count)] : world; }
static void keep(struct worker *worker, P comm) {
    if (!comm) return;
    int rank = -1, size = -1, result = ncclCommUserRank(comm, &rank) | ncclCommCount(comm, &size);
    tally(worker, OF_answer, result ? result : 8);
    worker->sum.digest += rank * 1000 + size;
    worker->comms[worker->count++] = comm;
}
static void end(struct worker *worker, int way) {
    if (!worker->count) return;
    int index = below(worker, worker->count), type = 7;
    P comm = worker->comms[index];
    worker->comms[index] = worker->comms[--worker->count];
    if (way == 0) tally(worker, OF_finalize, ncclCommFinalize(comm));
    if (way == 1) {
        tally(worker, OF_revoke, ncclCommRevoke(comm, 0));
        tally(worker, OF_operation, ncclAllReduce(NULL, NULL, 1, type, 0, comm, NULL));
    }
    if (way < 2) tally(worker, OF_destroy, ncclCommDestroy(comm));
    else tally(worker, OF_abort, ncclCommAbort(comm));
}

/* Any function that moves something. One of 16 has a type that NCCL does not know. */
static int operate(struct worker *worker, P comm) {
    int type = below(worker, 16) ? 7 : 99, what = below(worker, 12);
    size_t count = 1 + below(worker, 1 << 20);
    P stream = (P)(size_t)(0x100 + below(worker, 4));
    switch (what) {
    case 0: return ncclReduceScatter(NULL, NULL, count, type, 0, comm, stream);
    case 1: return ncclAllGather(NULL, NULL, count, type, comm, stream);
    case 2: return ncclBroadcast(NULL, NULL, count, type, 0, comm, stream);
    case 3: return ncclBcast(NULL, count, type, 1, comm, stream);
    case 4: return ncclReduce(NULL, NULL, count, type, 0, 1, comm, stream);
    case 5: return ncclSend(NULL, count, type, 1, comm, stream);
    case 6: return ncclRecv(NULL, count, type, 0, comm, stream);
    case 7: return ncclAlltoAll(NULL, NULL, count, type, comm, stream);
    case 8: return ncclAllReduceConfig(NULL, NULL, count, type, 0, comm, stream, NULL);
    default: return ncclAllReduce(NULL, NULL, count, type, 0, comm, stream);
    }
}

static void group(struct worker *worker) {
    int depth = 1 + below(worker, 3), calls = 1 + below(worker, 6);
    for (int i = 0; i < depth; i++) ncclGroupStart();
    for (int i = 0; i < calls; i++) tally(worker, OF_operation, operate(worker, some(worker)));
    for (int i = 0; i < depth; i++) tally(worker, OF_group, ncclGroupEnd());
}

static P config_of(struct worker *worker, Config *config) {
    *config = (Config){sizeof *config, CONFIG_MAGIC, 23203, below(worker, 2)};
    return below(worker, 3) ? config : NULL;
}

static void init(struct worker *worker) {
    Config config;
    Id id;
    P comm = NULL, given = config_of(worker, &config);
    memset(&id, below(worker, 256), sizeof id);
    int size = 2 + below(worker, 62), rank = below(worker, size);
    tally(worker, OF_init, given ? ncclCommInitRankConfig(&comm, size, id, rank, given) : ncclCommInitRank(&comm, size, id, rank));
    tally(worker, OF_answer, wait_for(comm));
    keep(worker, comm);
}

/* The handle is taken from the variable, which is then used for something else, or gone. */
static P taken(struct worker *worker, P *place, int way) {
    P comm = *place;
    *place = below(worker, 2) ? (P)0x41414141 : worker->count ? worker->comms[0] : NULL;
    if (way == 1) free(place);
    if (way == 2) munmap(place, 4096);
    return comm;
}

static void split(struct worker *worker) {
    Config config;
    P parent = some(worker), on_stack = NULL, given = config_of(worker, &config), *place = &on_stack;
    int way = below(worker, 3), color = below(worker, 8) ? below(worker, 4) : -1;
    if (parent == world) return;
    if (way == 1) place = calloc(1, sizeof *place);
    if (way == 2) place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tally(worker, OF_split, ncclCommSplit(parent, color, below(worker, 8), place, given));
    tally(worker, OF_answer, wait_for(parent));
    keep(worker, taken(worker, place, way));
}

static void split_in_group(struct worker *worker) {
    P parent = some(worker), places[3] = {NULL, NULL, NULL};
    int count = 1 + below(worker, 3);
    if (parent == world) return;
    ncclGroupStart();
    for (int i = 0; i < count; i++) {
        if (i == 1) ncclGroupStart();
        tally(worker, OF_splits, ncclCommSplit(parent, i, below(worker, 8), &places[i], NULL));
        if (i == 1) tally(worker, OF_group, ncclGroupEnd());
    }
    if (!below(worker, 8)) tally(worker, OF_operation, ncclAllReduce(NULL, NULL, 1, 99, 0, parent, NULL));
    tally(worker, OF_group, ncclGroupEnd());
    tally(worker, OF_answer, wait_for(parent));
    for (int i = 0; i < count; i++) keep(worker, places[i]);
}

static void shrink_or_grow(struct worker *worker) {
    P parent = some(worker), comm = NULL;
    int without = 1000, size = 0, grows = below(worker, 2);
    if (parent == world || ncclCommCount(parent, &size)) return;
    if (grows) tally(worker, OF_grow, ncclCommGrow(parent, size + 2, NULL, -1, &comm, NULL));
    else tally(worker, OF_shrink, ncclCommShrink(parent, &without, 1, &comm, NULL, 0));
    tally(worker, OF_answer, wait_for(grows ? comm : parent));
    keep(worker, comm);
}

static void memory(struct worker *worker) {
    P comm = some(worker), memory = NULL, handle = NULL;
    tally(worker, OF_memory, ncclMemAlloc(&memory, 4096));
    tally(worker, OF_register, ncclCommRegister(comm, memory, 4096, &handle));
    tally(worker, OF_register, ncclCommDeregister(comm, handle));
    tally(worker, OF_register, ncclCommWindowRegister(comm, memory, 4096, &handle, 0));
    tally(worker, OF_register, ncclCommWindowDeregister(comm, handle));
    tally(worker, OF_memory, ncclMemFree(memory));
}

/* A process that is forked off while a library is closed cannot exit: the C library has a lock then. */
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;

static void plug(struct worker *worker) {
    int (*plugged)(P, int);
    pthread_mutex_lock(&closing);
    P library = dlopen(getenv("STRESS_PLUGGED"), RTLD_NOW | RTLD_LOCAL);
    plugged = library ? (int (*)(P, int))dlsym(library, "plugged") : NULL;
    tally(worker, OF_plugged, plugged ? plugged(some(worker), below(worker, 2)) : 9);
    if (library) dlclose(library);
    pthread_mutex_unlock(&closing);
}

static void step(struct worker *worker, int may_open) {
    int op = 0, scalar = 0;
    Id id;
    P many[2], comm = some(worker);
    if (worker->count > LIVE - 4) return end(worker, below(worker, 4));
    switch (below(worker, 24)) {
    case 0: case 1: return init(worker);
    case 2: case 3: return split(worker);
    case 4: return split_in_group(worker);
    case 5: return shrink_or_grow(worker);
    case 6: case 7: return end(worker, below(worker, 4));
    case 8: return memory(worker);
    case 9: case 10: case 11: return group(worker);
    case 12: return (void)tally(worker, OF_nobody, operate(worker, NULL));
    case 13: return (void)tally(worker, OF_id, ncclGetUniqueId(&id));
    case 14:
        tally(worker, OF_reduction, ncclRedOpCreatePreMulSum(&op, &scalar, 7, 1, comm));
        return (void)tally(worker, OF_reduction, ncclRedOpDestroy(op, comm));
    case 15:
        if (may_open) plug(worker);
        return;
    case 16:
        tally(worker, OF_all, ncclCommInitAll(many, 2, NULL));
        keep(worker, many[0]);
        return keep(worker, many[1]);
    default: tally(worker, OF_operation, operate(worker, comm));
    }
}

static void *work(void *argument) {
    for (int i = 0; i < STEPS; i++) step(argument, 1);
    return NULL;
}

/* Calls until it is cancelled: with what it did nobody counts. */
static void *call_until_cancelled(void *count) {
    for (;;) {
        if (ncclAllReduce(NULL, NULL, (size_t)count, 7, 0, world, NULL)) is_handler_refused = 1;
        pthread_testcancel();
    }
    return NULL;
}
static void *call_until_done(void *count) {
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED)) ncclAllReduce(NULL, NULL, (size_t)count, 7, 0, world, NULL);
    return NULL;
}

static void handle(int number) {
    int version, error = errno;
    Id id;
    if (ncclGetVersion(&version) || ncclGetUniqueId(&id) || ncclAllReduce(NULL, NULL, number, 7, 0, world, NULL)) is_handler_refused = 1;
    errno = error;
}
static void arm(void) {
    struct itimerval often = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &often, NULL);
}

/* A process that is forked off while others are in the midst of something: it has its own communicators. */
static void child(struct worker *worker, int way, int fd) {
    memset(worker->comms, 0, sizeof worker->comms);
    worker->count = 0;
    memset(&worker->sum, 0, sizeof worker->sum);
    arm();
    for (int i = 0; i < STEPS / 2; i++) step(worker, 0);
    profile((P)(size_t)next(worker));
    if (is_handler_refused || write(fd, &worker->sum, sizeof worker->sum) != sizeof worker->sum) _exit(99);
    if (way == 0) exit(worker->sum.digest & 63);
    if (way == 1) kill(getpid(), SIGKILL);
    _exit(worker->sum.digest & 63);
}

static void fork_off(struct worker *main_worker) {
    struct worker copy = {.random = next(main_worker)};
    int way = below(main_worker, 3), status = 0, ends[2];
    struct sum sum = {0};
    if (pipe(ends)) exit(98);
    pthread_mutex_lock(&closing);
    pid_t pid = fork();
    if (!pid) child(&copy, way, ends[1]);
    pthread_mutex_unlock(&closing);
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length < sizeof sum && (got = read(ends[0], (char *)&sum + length, sizeof sum - length)) != 0;) {
        if (got > 0) length += got;
        else if (errno != EINTR) break;
    }
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR);
    tally(main_worker, OF_child, WIFSIGNALED(status) ? 1 : 0);
    main_worker->sum.digest += status;
    add(&main_worker->sum, &sum);
}

static void spawn(struct worker *main_worker) {
    int status = 0;
    pid_t pid = vfork();
    if (!pid) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(97);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR);
    tally(main_worker, OF_spawn, status);
}

static void round_of(struct worker *main_worker) {
    pthread_t threads[WORKERS], victims[2], profiler;
    int count = 2 + below(main_worker, WORKERS - 1), victim_count = below(main_worker, 3);
    pthread_create(&profiler, NULL, profile, (P)(size_t)next(main_worker));
    for (int i = 0; i < victim_count; i++) pthread_create(&victims[i], NULL, call_until_cancelled, (P)(size_t)(i + 1));
    for (int i = 0; i < count; i++) {
        workers[i].random = next(main_worker);
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int forks = below(main_worker, 3); forks; forks--) fork_off(main_worker);
    if (!below(main_worker, 4)) spawn(main_worker);
    for (int i = 0; i < victim_count; i++) {
        pthread_cancel(victims[i]);
        pthread_join(victims[i], NULL);
    }
    pthread_join(profiler, NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    /* The next round's threads get the communicators of others. */
    struct worker first = workers[0];
    memmove(workers, workers + 1, (WORKERS - 1) * sizeof *workers);
    workers[WORKERS - 1] = first;
}

static void *finish(void *code) { exit((int)(size_t)code); }

static void leave(int way, int code) {
    pthread_t thread;
    for (size_t i = 0; way && i < 3; i++) pthread_create(&thread, NULL, call_until_done, (P)i);
    if (way == 1) exit(code);
    if (way == 2) _exit(code);
    if (way == 3) {
        pthread_create(&thread, NULL, finish, (P)(size_t)code);
        pthread_exit(NULL);
    }
}

int main(int count, char **arguments) {
    static struct worker main_worker;
    struct sum sum = {0};
    Id id;
    if (count < 3) return 96;
    U seed = strtoull(arguments[1], NULL, 10);
    int rounds = strtod(arguments[2], NULL) * ROUNDS_PER_SECOND;
    main_worker.random = seed * 0x2545f4914f6cdd1dull + 1;
    memset(&id, 1, sizeof id);
    /* One that is cancelled in the first call of all, for some. */
    if (seed % 2) {
        pthread_t thread;
        pthread_create(&thread, NULL, (void *(*)(void *))(P)ncclGetUniqueId, &id);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    if (ncclCommInitRank(&world, 8, id, 3)) return 95;
    handle(0);
    signal(SIGALRM, handle);
    arm();
    for (int i = 0; i < rounds; i++) round_of(&main_worker);
    for (int i = 0; i < WORKERS; i++) {
        while (workers[i].count) end(&workers[i], 2);
        add(&sum, &workers[i].sum);
    }
    add(&sum, &main_worker.sum);
    for (int i = 0; i < KINDS * RESULTS; i++) {
        if (sum.counts[i]) printf("%s %d: %llu\n", names[i / RESULTS], i % RESULTS, sum.counts[i]);
    }
    printf("%016llx%s\n", sum.digest, is_handler_refused ? " refused" : "");
    fflush(stdout);
    leave(seed / 2 % 4, sum.digest & 63);
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    return sum.digest & 63;
}
