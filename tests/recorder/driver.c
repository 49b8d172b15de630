/* Calls NCCL as its arguments say, for tests of the recorder: each argument is one step.
 *
 * Functions are found as the variable VIA says: "link" (by the linker; the default), "handle" (dlopen, then dlsym of that), "default" (dlopen
 * for itself alone, then dlsym(RTLD_DEFAULT)). Every call of `all` prints what the fake library should write of it.
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long U;
static const char *via;
static void *library;
static P comms[1024];
static char **all_arguments;

static void *find(const char *name, void *linked) {
    if (!via || !strcmp(via, "link")) return linked;
    const char *path = getenv("LIBRARY");
    if (!library && !(library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", dlerror());
        exit(9);
    }
    dlerror();
    void *found = dlsym(strcmp(via, "handle") ? RTLD_DEFAULT : library, name);
    const char *error = dlerror();
    if (error) printf("dlsym of %s: %s\n", name, found ? "FOUND AND ERROR" : "none");
    return found;
}

#define FN(name) ((__typeof__(&name))find(#name, (void *)&name))
#define SHOW(name, ...) show(#name, (U[]){__VA_ARGS__}, sizeof((U[]){__VA_ARGS__}) / sizeof(U))
#define V (U)
#define AT(number) ((P)(size_t)(number))
static void show(const char *name, const U *values, size_t count) {
    printf("%s", name);
    for (size_t i = 0; i < count; i++) printf(" %llx", values[i]);
    printf("\n");
}

static Id id_of(const char *seed) {
    Id id;
    for (int i = 0; i < 128; i++) id.bytes[i] = *seed == 'A' ? i : *seed == 'B' ? 37 * i + 200 : (char)(atoi(seed) * 131 + i);
    return id;
}
#define WORDS(id) id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]

/* One call of every function, with arguments that differ. */
static void all(void) {
    Id id = id_of("A"), other;
    U w[16];
    int devices[2] = {0, 1}, without[1] = {3}, op = 0, r = 0;
    P comm = NULL, two[2], child = NULL, c2 = NULL, config = AT(0xc0f);
    memcpy(w, &id, sizeof id);
#define CALL(name, ...) (fn = find(#name, (void *)&name), fn ? ((__typeof__(&name))fn)(__VA_ARGS__) : -1)
    void *fn;
#define IT(name, arguments, ...) do { r = CALL(name, arguments); if (r == 0) SHOW(name, __VA_ARGS__); else printf("# %s %d\n", #name, r); } while (0)
#define COMMA ,
    IT(ncclGetUniqueId, &other, V &other);
    IT(ncclCommInitRank, &comm COMMA 8 COMMA id COMMA 5, V &comm, 8, WORDS(w), 5);
    IT(ncclCommInitRankConfig, &c2 COMMA 4 COMMA id COMMA 2 COMMA config, V &c2, 4, WORDS(w), 2, V config);
    IT(ncclCommInitRankScalable, &child COMMA 16 COMMA 9 COMMA 1 COMMA &id COMMA config, V &child, 16, 9, 1, WORDS(w), V config);
    IT(ncclCommInitAll, two COMMA 2 COMMA devices, V two, 2, V devices);
    IT(ncclCommSplit, comm COMMA 3 COMMA 1 COMMA &child COMMA config, V comm, 3, 1, V &child, V config);
    IT(ncclCommShrink, comm COMMA without COMMA 1 COMMA &child COMMA config COMMA 1, V comm, V without, 1, V &child, V config, 1);
    IT(ncclCommGrow, comm COMMA 12 COMMA &id COMMA -1 COMMA &child COMMA config, V comm, 12, V &id, 0xffffffffu, V &child, V config);
    IT(ncclCommGetUniqueId, comm COMMA &other, V comm, V &other);
    IT(ncclAllReduce, AT(0x11) COMMA AT(0x12) COMMA 101 COMMA 7 COMMA 0 COMMA comm COMMA AT(0x51), 0x11, 0x12, 101, 7, 0, V comm, 0x51);
    IT(ncclReduceScatter, AT(0x11) COMMA AT(0x12) COMMA 102 COMMA 8 COMMA 1 COMMA comm COMMA AT(0x52), 0x11, 0x12, 102, 8, 1, V comm, 0x52);
    IT(ncclReduce, AT(0x11) COMMA AT(0x12) COMMA 103 COMMA 9 COMMA 2 COMMA 6 COMMA comm COMMA AT(0x53), 0x11, 0x12, 103, 9, 2, 6, V comm, 0x53);
    IT(ncclAllGather, AT(0x11) COMMA AT(0x12) COMMA 104 COMMA 0 COMMA comm COMMA AT(0x54), 0x11, 0x12, 104, 0, V comm, 0x54);
    IT(ncclBroadcast, AT(0x11) COMMA AT(0x12) COMMA 105 COMMA 1 COMMA 7 COMMA comm COMMA AT(0x55), 0x11, 0x12, 105, 1, 7, V comm, 0x55);
    IT(ncclBcast, AT(0x11) COMMA 106 COMMA 2 COMMA 4 COMMA comm COMMA AT(0x56), 0x11, 106, 2, 4, V comm, 0x56);
    if (!r) SHOW(ncclBroadcast, 0x11, 0x11, 106, 2, 4, V comm, 0x56);
    IT(ncclAlltoAll, AT(0x11) COMMA AT(0x12) COMMA 107 COMMA 3 COMMA comm COMMA AT(0x57), 0x11, 0x12, 107, 3, V comm, 0x57);
    IT(ncclGather, AT(0x11) COMMA AT(0x12) COMMA 108 COMMA 4 COMMA 3 COMMA comm COMMA AT(0x58), 0x11, 0x12, 108, 4, 3, V comm, 0x58);
    IT(ncclScatter, AT(0x11) COMMA AT(0x12) COMMA 109 COMMA 5 COMMA 2 COMMA comm COMMA AT(0x59), 0x11, 0x12, 109, 5, 2, V comm, 0x59);
    IT(ncclAllReduceConfig, AT(0x11) COMMA AT(0x12) COMMA 111 COMMA 7 COMMA 3 COMMA comm COMMA AT(0x61) COMMA config, 0x11, 0x12, 111, 7, 3, V comm, 0x61, V config);
    IT(ncclReduceScatterConfig, AT(0x11) COMMA AT(0x12) COMMA 112 COMMA 8 COMMA 4 COMMA comm COMMA AT(0x62) COMMA config, 0x11, 0x12, 112, 8, 4, V comm, 0x62, V config);
    IT(ncclReduceConfig, AT(0x11) COMMA AT(0x12) COMMA 113 COMMA 9 COMMA 1000 COMMA 1 COMMA comm COMMA AT(0x63) COMMA config, 0x11, 0x12, 113, 9, 1000, 1, V comm, 0x63, V config);
    IT(ncclAllGatherConfig, AT(0x11) COMMA AT(0x12) COMMA 114 COMMA 0 COMMA comm COMMA AT(0x64) COMMA config, 0x11, 0x12, 114, 0, V comm, 0x64, V config);
    IT(ncclBroadcastConfig, AT(0x11) COMMA AT(0x12) COMMA 115 COMMA 1 COMMA 5 COMMA comm COMMA AT(0x65) COMMA config, 0x11, 0x12, 115, 1, 5, V comm, 0x65, V config);
    IT(ncclAlltoAllConfig, AT(0x11) COMMA AT(0x12) COMMA 117 COMMA 3 COMMA comm COMMA AT(0x67) COMMA config, 0x11, 0x12, 117, 3, V comm, 0x67, V config);
    IT(ncclGatherConfig, AT(0x11) COMMA AT(0x12) COMMA 118 COMMA 4 COMMA 6 COMMA comm COMMA AT(0x68) COMMA config, 0x11, 0x12, 118, 4, 6, V comm, 0x68, V config);
    IT(ncclScatterConfig, AT(0x11) COMMA AT(0x12) COMMA 119 COMMA 5 COMMA 7 COMMA comm COMMA AT(0x69) COMMA config, 0x11, 0x12, 119, 5, 7, V comm, 0x69, V config);
    IT(ncclGroupStart, , 0);
    IT(ncclSend, AT(0x11) COMMA 1ull << 40 COMMA 6 COMMA 1 COMMA comm COMMA AT(0x71), 0x11, 1ull << 40, 6, 1, V comm, 0x71);
    IT(ncclRecv, AT(0x12) COMMA 122 COMMA 10 COMMA 2 COMMA comm COMMA NULL, 0x12, 122, 10, 2, V comm, 0);
    IT(ncclGroupEnd, , 0);
    IT(ncclPutSignal, AT(0x11) COMMA 123 COMMA 11 COMMA 3 COMMA AT(0x77) COMMA 4096 COMMA 5 COMMA 6 COMMA 7 COMMA comm COMMA AT(0x73), 0x11, 123, 11, 3, 0x77, 4096, 5, 6, 7, V comm, 0x73);
    IT(ncclSignal, 4 COMMA 5 COMMA 6 COMMA 7 COMMA comm COMMA AT(0x74), 4, 5, 6, 7, V comm, 0x74);
    IT(ncclWaitSignal, 2 COMMA AT(0x99) COMMA comm COMMA AT(0x75), 2, 0x99, V comm, 0x75);
    IT(ncclGroupStart, , 0);
    IT(ncclGroupSimulateEnd, AT(0x88), 0x88);
    IT(ncclRedOpCreatePreMulSum, &op COMMA AT(0x31) COMMA 7 COMMA 1 COMMA comm, V &op, 0x31, 7, 1, V comm);
    IT(ncclRedOpDestroy, 1000 COMMA comm, 1000, V comm);
    IT(ncclCommRevoke, comm COMMA 0, V comm, 0);
    IT(ncclCommSuspend, comm COMMA 1, V comm, 1);
    IT(ncclCommResume, comm, V comm);
    IT(ncclCommFinalize, comm, V comm);
    IT(ncclCommDestroy, comm, V comm);
    IT(ncclCommAbort, c2, V c2);
    if (!r) printf("# end\n");
}

static int (*reduce)(P, P, size_t, int, int, P, P);
struct loop { size_t count; P comm; int first; };
static void *loop(void *argument) {
    struct loop *loop = argument;
    for (size_t i = 1; i <= loop->count; i++) reduce(NULL, NULL, i, 7, 0, loop->comm, AT(loop->first));
    return NULL;
}

/* The time that all threads have had a processor: not what other programs take away. */
static double ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

/* Communicators made, used and ended, so many times. */
static void cycle(int times, int is_destroyed) {
    for (int i = 0; i < times; i++) {
        P made = NULL;
        FN(ncclCommInitRank)(&made, 2, id_of("A"), 0);
        reduce(NULL, NULL, 1000 + i, 7, 0, made, NULL);
        if (is_destroyed) FN(ncclCommDestroy)(made);
    }
}
static void *cycle_of(void *times) {
    cycle(*(int *)times, 1);
    return NULL;
}

/* Calls for ever on so many threads, each of which says in a shared page how many of its calls are complete. */
static volatile U *done;
static void *forever(void *number) {
    for (U i = 1;; i++) {
        reduce(NULL, NULL, i, 7, 0, comms[0], AT(100 + (size_t)number));
        done[(size_t)number] = i;
    }
    return NULL;
}
static void call_forever(const char *path, int threads) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (ftruncate(fd, 4096)) exit(8);
    done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_t other;
    for (int i = 1; i < threads; i++) pthread_create(&other, NULL, forever, AT(i));
    forever(NULL);
}

static int step(char *text) {
    char word[4][256] = {{0}};
    int a = 0, b = 0, c = 0, d = 0, result = 0;
    sscanf(text, "%255s %255s %255s %255s", word[0], word[1], word[2], word[3]);
    sscanf(text, "%*s %d %d %d %d", &a, &b, &c, &d);
    const char *verb = word[0];
    reduce = FN(ncclAllReduce);
    P *place = &comms[a];
    char seed[64] = "A";
    sscanf(text, "%*s %*d %*d %*d %63s", seed);
    if (!strcmp(verb, "all")) all();
    else if (!strcmp(verb, "init")) result = FN(ncclCommInitRank)(place, b, id_of(seed), c);
    else if (!strcmp(verb, "initconfig")) result = FN(ncclCommInitRankConfig)(place, b, id_of(seed), c, NULL);
    else if (!strcmp(verb, "initall")) result = FN(ncclCommInitAll)(place, b, NULL);
    else if (!strcmp(verb, "split")) result = FN(ncclCommSplit)(comms[b], c, d, place, NULL);
    else if (!strcmp(verb, "shrink")) result = FN(ncclCommShrink)(comms[b], &c, 1, place, NULL, 0);
    else if (!strcmp(verb, "grow")) result = FN(ncclCommGrow)(b < 0 ? NULL : comms[b], c, NULL, d, place, NULL);
    else if (!strcmp(verb, "reduce")) result = FN(ncclAllReduce)(NULL, NULL, b, 7, 0, comms[a], AT(c));
    else if (!strcmp(verb, "bcast")) result = FN(ncclBcast)(NULL, b, 7, c, comms[a], NULL);
    else if (!strcmp(verb, "start")) result = FN(ncclGroupStart)();
    else if (!strcmp(verb, "end")) result = FN(ncclGroupEnd)();
    else if (!strcmp(verb, "finalize")) result = FN(ncclCommFinalize)(*place);
    else if (!strcmp(verb, "destroy")) result = FN(ncclCommDestroy)(*place);
    else if (!strcmp(verb, "abort")) result = FN(ncclCommAbort)(*place);
    else if (!strcmp(verb, "poll")) result = FN(ncclCommGetAsyncError)(*place, &b);
    else if (!strcmp(verb, "same")) result = comms[a] != comms[b];
    else if (!strcmp(verb, "sleep")) usleep(1000 * a);
    else if (!strcmp(verb, "pause")) pause();
    else if (!strcmp(verb, "kill")) kill(getpid(), 9);
    else if (!strcmp(verb, "cycle")) cycle(a, b);
    else if (!strcmp(verb, "ppid")) printf("%s\n", getppid() > 0 ? "a parent" : "none");
    else if (!strcmp(verb, "reopen")) { /* the library is closed, and opened again with the next call */
        dlclose(library);
        library = NULL;
    } else if (!strcmp(verb, "churn")) { /* threads, communicators of each */
        pthread_t threads[64];
        for (int i = 0; i < a; i++) pthread_create(&threads[i], NULL, cycle_of, &b);
        for (int i = 0; i < a; i++) pthread_join(threads[i], NULL);
    } else if (!strcmp(verb, "fork")) { /* the child goes on, the parent waits for it and goes on */
        pid_t child = fork();
        int status;
        if (child) waitpid(child, &status, 0);
        if (child) printf("parent\n");
    } else if (!strcmp(verb, "exec")) {
        char **rest = all_arguments;
        while (*rest != text) rest++;
        rest[0] = all_arguments[0];
        fflush(stdout);
        execv("/proc/self/exe", rest);
    } else if (!strcmp(verb, "threads") || !strcmp(verb, "time")) { /* threads, calls of each, communicator (timed ones have one each from there on) */
        pthread_t threads[64];
        struct loop loops[64];
        double begin = ns();
        for (int i = 0; i < a; i++) {
            P own = verb[1] == 'i' ? comms[c + i] : comms[c];
            loops[i] = (struct loop){b, own, 100 + i};
            if (a == 1) loop(&loops[i]);
            else pthread_create(&threads[i], NULL, loop, &loops[i]);
        }
        for (int i = 0; i < a && a > 1; i++) pthread_join(threads[i], NULL);
        if (*verb == 't' && verb[1] == 'i') printf("%.0f\n", ns() - begin);
    } else if (!strcmp(verb, "count")) call_forever(word[1], atoi(word[2])); /* a file for the page, threads */
    else return -1;
    return result;
}

int main(int count, char **arguments) {
    all_arguments = arguments;
    via = getenv("VIA");
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < count; i++) {
        int result = step(arguments[i]);
        if (result) printf("! %s: %d\n", arguments[i], result);
    }
    return 0;
}
