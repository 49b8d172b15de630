/* Moments at which a recorder can harm a job or lose what it does, one a run: its name is the argument.
 *
 * Every call that has to be in the recording is a reduction with a count of its own; what is printed says which communicator it was for.
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 300, RARE = 8, RARE_CALLS = 20 };
static const Config nonblocking = {sizeof(Config), CONFIG_MAGIC, 23203, 0};
static const char *variant = "";

static void wait_for(P comm) {
    int error = 7;
    while (!ncclCommGetAsyncError(comm, &error) && error == 7) usleep(100);
}

static P init(int size, P config) {
    P comm = NULL;
    Id id;
    memset(&id, 3, sizeof id);
    int result = config ? ncclCommInitRankConfig(&comm, size, id, 1, config) : ncclCommInitRank(&comm, size, id, 1);
    if (result && result != 7) exit(2);
    wait_for(comm);
    return comm;
}

static void reduce(size_t count, P comm, size_t stream) {
    int result = ncclAllReduce(NULL, NULL, count, 7, 0, comm, (P)stream);
    if (result) printf("reduce %zu: %d\n", count, result);
}

static void show(size_t count, P comm) {
    int rank = -1, size = -1;
    if (ncclCommUserRank(comm, &rank) || ncclCommCount(comm, &size)) exit(3);
    printf("%zu %zx %d %d\n", count, (size_t)comm, rank, size);
}

/* The caller keeps a child's handle elsewhere, and uses the variable that NCCL wrote it to for something else. */
static void stale(void) {
    P world = init(8, (P)&nonblocking);
    for (int key = 0; key < 4; key++) {
        P *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ncclCommSplit(world, 3, key, place, NULL);
        wait_for(world);
        P child = *place;
        if (!strcmp(variant, "garbage")) *place = (P)0x41414141;
        else if (!strcmp(variant, "other")) *place = world;
        else munmap(place, 4096);
        reduce(10 + key, child, 0);
        reduce(20 + key, world, 0);
        show(10 + key, child);
        show(20 + key, world);
        if (key % 2) ncclCommDestroy(child);
    }
}

/* Many children at once, in one group; used in another order, after their variables have changed places. */
static void pending(void) {
    static P places[CHILDREN], children[CHILDREN];
    P world = init(1024, (P)&nonblocking);
    ncclGroupStart();
    for (int key = 0; key < CHILDREN; key++) ncclCommSplit(world, 3, key, &places[key], NULL);
    ncclGroupEnd();
    wait_for(world);
    for (int key = 0; key < CHILDREN; key++) children[key] = places[key];
    for (int key = 0; key < CHILDREN; key++) places[key] = children[(key * 7 + 5) % CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        int key = i * 77 % CHILDREN;
        reduce(1000 + key, children[key], 0);
        show(1000 + key, children[key]);
    }
}

static pthread_barrier_t both;
static P shared;
static void *use_shared(void *count) {
    pthread_barrier_wait(&both);
    reduce((size_t)count, shared, 0);
    return NULL;
}

/* Two threads are the first to use a child, at the same moment; the next child gets its memory. */
static void twice(void) {
    P parent = init(1024, (P)&nonblocking);
    pthread_barrier_init(&both, NULL, 2);
    for (size_t key = 0; key < 100; key++) {
        pthread_t thread;
        ncclCommSplit(parent, 3, key, &shared, NULL);
        wait_for(parent);
        pthread_create(&thread, NULL, use_shared, (P)(1000 + key));
        use_shared((P)(2000 + key));
        pthread_join(thread, NULL);
        show(1000 + key, shared);
        show(2000 + key, shared);
        ncclCommDestroy(shared);
    }
}

/* The file has room for 512 communicators, of which one is a child that nobody has used yet, and none for the second child. */
static void full(void) {
    P parent = init(8, (P)&nonblocking), children[3];
    ncclCommSplit(parent, 3, 1, &children[1], NULL);
    wait_for(parent);
    for (int i = 0; i < 510; i++) init(2, NULL);
    ncclCommSplit(parent, 3, 2, &children[2], NULL);
    wait_for(parent);
    for (int key = 2; key > 0; key--) {
        reduce(10 + key, children[key], 0);
        show(10 + key, children[key]);
    }
}

static int *slow_calls(void) {
    int *calls = dlsym(RTLD_DEFAULT, "slow_calls");
    return calls ? calls : (exit(4), calls);
}
static void wait_for_slow(void) {
    while (!__atomic_load_n(slow_calls(), __ATOMIC_SEQ_CST)) usleep(100);
}

static void *first_call(void *count) {
    reduce((size_t)count, init(2, NULL), 0);
    pthread_testcancel();
    return NULL;
}

/* The process is forked while another thread makes the first call. */
static void fork_meanwhile(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, first_call, (P)1);
    wait_for_slow();
    pid_t child = fork();
    int status = 0;
    if (!child) {
        reduce(2, init(2, NULL), 0);
        exit(0);
    }
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    printf("%d\n", status);
}

/* A thread is cancelled within the first call, and one that waits for it. */
static void cancel(void) {
    pthread_t thread, waiting;
    pthread_create(&thread, NULL, first_call, (P)1);
    wait_for_slow();
    pthread_create(&waiting, NULL, first_call, (P)2);
    usleep(2000);
    pthread_cancel(waiting);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    pthread_join(waiting, NULL);
    reduce(3, init(2, NULL), 0);
}

static void handle(int number) {
    Id id;
    if (ncclGetUniqueId(&id) || ncclGroupStart() || ncclGroupEnd()) _exit(number);
}

/* A signal comes within the first call, and its handler calls NCCL; the first to open the file may be NCCL's plugin interface, too. */
static void signalled(void) {
    signal(SIGUSR1, handle);
    if (!strcmp(variant, "plugin")) {
        P context = NULL, *table = dlsym(RTLD_DEFAULT, "ncclProfiler_v5");
        int mask = 0;
        if (!table) exit(4);
        ((int (*)(P *, size_t, int *, const char *, int, int, int, P))table[1])(&context, 1, &mask, "a", 1, 2, 1, NULL);
    }
    reduce(1, init(2, NULL), 0);
}

static void plain(void) {
    P comm = init(2, NULL);
    for (size_t count = 1; count <= 3; count++) reduce(count, comm, 0);
}

static int is_flooding = 1;
static P world;
static void *flood(void *stream) {
    for (size_t count = 1; count <= 50000 || __atomic_load_n(&is_flooding, __ATOMIC_RELAXED); count++) reduce(count, world, (size_t)stream);
    return NULL;
}
static void *call_rarely(void *stream) {
    for (size_t count = 1; count <= RARE_CALLS; count++) {
        usleep(500);
        reduce(count, world, (size_t)stream);
    }
    return NULL;
}

/* One thread calls without pause, the others now and then. */
static void rare(void) {
    pthread_t threads[RARE + 1];
    world = init(2, NULL);
    pthread_create(&threads[RARE], NULL, flood, (P)1);
    for (size_t i = 0; i < RARE; i++) pthread_create(&threads[i], NULL, call_rarely, (P)(100 + i));
    call_rarely((P)(100 + RARE));
    for (int i = 0; i < RARE; i++) pthread_join(threads[i], NULL);
    __atomic_store_n(&is_flooding, 0, __ATOMIC_RELAXED);
    pthread_join(threads[RARE], NULL);
}

/* Says that it has a file, waits until somebody has looked at it, and goes on. */
static void live(void) {
    P comm = init(2, NULL);
    printf("ready\n");
    fflush(stdout);
    if (getchar() == EOF) exit(5);
    for (size_t count = 1; count <= 4000; count++) reduce(count, comm, 0);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } moments[] = {
        {"stale", stale}, {"pending", pending}, {"fork", fork_meanwhile}, {"cancel", cancel}, {"signal", signalled},
        {"twice", twice}, {"full", full}, {"plain", plain}, {"rare", rare}, {"live", live},
    };
    if (count > 2) variant = arguments[2];
    for (size_t i = 0; count > 1 && i < sizeof moments / sizeof *moments; i++) {
        if (!strcmp(arguments[1], moments[i].name)) return moments[i].run(), 0;
    }
    return 9;
}
