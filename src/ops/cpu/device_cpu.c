/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: host memory, and work that is done at the call. */
#include "pt_autoconf.h"
#include "penta/base/alloc.h"
#include "src/ops/backend.h"
#include "src/ops/cpu/matmul.h"
#include "src/ops/cpu/stream.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

struct pt_event {
    char unused; /* all work is done at the call */
};

enum { PAGE = 4096, BLAS_BUFFER = 128 << 20, MAPPED_BUFFERS = 64 };

/* Touches all pages, so that no step has page faults. */
static pt_status_t cpu_alloc(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                             void **out)
{
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)device, (void)memory;
    if (pages == MAP_FAILED)
        return PT_MEMORY;
    (void)madvise(pages, size, MADV_HUGEPAGE);
    for (size_t at = 0; at < size; at += PAGE)
        ((volatile char *)pages)[at] = 0;
    *out = pages;
    return PT_OK;
}

static void cpu_free(pt_device_t *device, pt_memory_t memory, void *pointer,
                     int64_t bytes)
{
    (void)device, (void)memory;
    (void)munmap(pointer, bytes > 0 ? (size_t)bytes : 1);
}

static pt_status_t cpu_stream_create(pt_device_t *device, pt_stream_t **out)
{
    PT_TRY(PT_NEW("stream", 1, out));
    (*out)->threads = device->threads;
    (*out)->matmul = device->state;
    return PT_OK;
}

static void cpu_stream_destroy(pt_device_t *device, pt_stream_t *stream)
{
    (void)device;
    pt_free(stream);
}

static pt_status_t cpu_event_create(pt_device_t *device, pt_event_t **out)
{
    (void)device;
    return PT_NEW("event", 1, out);
}

static void cpu_event_destroy(pt_device_t *device, pt_event_t *event)
{
    (void)device;
    pt_free(event);
}

static pt_status_t cpu_event_record(pt_device_t *device, pt_event_t *event,
                                    pt_stream_t *stream)
{
    (void)device, (void)event, (void)stream;
    return PT_OK;
}

static pt_status_t cpu_event_query(pt_device_t *device, pt_event_t *event, bool *ready)
{
    (void)device, (void)event;
    *ready = true;
    return PT_OK;
}

static pt_status_t cpu_stream_wait(pt_device_t *device, pt_stream_t *stream,
                                   pt_event_t *event)
{
    (void)device, (void)stream, (void)event;
    return PT_OK;
}

static pt_status_t cpu_stream_sync(pt_device_t *device, pt_stream_t *stream)
{
    (void)device, (void)stream;
    return PT_OK;
}

static pt_status_t cpu_copy(pt_device_t *device, pt_stream_t *stream, void *to,
                            pt_memory_t to_memory, const void *from,
                            pt_memory_t from_memory, int64_t bytes)
{
    (void)device, (void)stream, (void)to_memory, (void)from_memory;
    memcpy(to, from, (size_t)bytes);
    return PT_OK;
}

static pt_status_t cpu_prepare_gemm(pt_device_t *device, const pt_op_gemm_t *args)
{
    if (device->state == NULL || args->a.dtype != PT_BF16)
        return PT_OK;
    return pt_matmul_prepare(device->state, args);
}

static void cpu_close(pt_device_t *device)
{
    pt_matmul_destroy(device->state);
}

static const pt_device_ops_t cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_query = cpu_event_query,
    .stream_wait = cpu_stream_wait,
    .stream_sync = cpu_stream_sync,
    .copy = cpu_copy,
    .prepare_gemm = cpu_prepare_gemm,
    .device_memory_is_host_memory = true,
};

extern const pt_kernels_t pt_cpu_table_base;
#ifdef PT_HAVE_ISA_V3
extern const pt_kernels_t pt_cpu_table_v3;
#endif
#ifdef PT_HAVE_ISA_V4
extern const pt_kernels_t pt_cpu_table_v4;
#endif

const char *pt_isa_name(pt_isa_t isa)
{
    static const char *const names[] = {
#define PT_ISA_LEVEL(name, word) word,
        PT_ISA_LEVELS(PT_ISA_LEVEL)
#undef PT_ISA_LEVEL
    };
    return names[isa];
}

const pt_kernels_t *pt_cpu_kernels(pt_isa_t isa)
{
#ifdef PT_HAVE_ISA_V4
    if (isa == PT_ISA_V4)
        return __builtin_cpu_supports("avx512f") &&
                       __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512cd") &&
                       __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl")
                   ? &pt_cpu_table_v4
                   : NULL;
#endif
#ifdef PT_HAVE_ISA_V3
    if (isa == PT_ISA_V3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("bmi2")
                   ? &pt_cpu_table_v3
                   : NULL;
#endif
    return isa == PT_ISA_BASE ? &pt_cpu_table_base : NULL;
}

static pt_status_t device_choose_level(pt_isa_t wanted, pt_isa_t *out)
{
    *out = wanted == PT_ISA_AUTO ? PT_ISA_V4 : wanted;
    while (wanted == PT_ISA_AUTO && !pt_cpu_kernels(*out))
        *out = (pt_isa_t)(*out - 1); /* every CPU supports the lowest level */
    PT_CHECK(pt_cpu_kernels(*out), PT_CONFIG,
             "run.isa=%s: this build or this CPU lacks it; auto takes the best of "
             "base, v3, v4 it has",
             pt_isa_name(wanted));
    return PT_OK;
}

/* OpenBLAS maps a buffer for each thread when it first works, and retries for ever if
 * that fails. So this checks that memory for all of them is left, and maps them now, so
 * that later counts of memory include them. */
static pt_status_t device_make_blas_buffers(int threads)
{
    void *(*take)(int);
    void (*give)(void *);
    int64_t bytes = threads * (int64_t)BLAS_BUFFER;

    *(void **)&take = dlsym(RTLD_DEFAULT, "blas_memory_alloc");
    *(void **)&give = dlsym(RTLD_DEFAULT, "blas_memory_free");
    if (!take || !give)
        return PT_OK;
    bytes += (threads - 1) * pt_thread_stack_bytes();
    PT_TRY(pt_process_memory_check(bytes, "the buffers of OpenBLAS"));
    void *buffers[MAPPED_BUFFERS];
    int mapped = threads < MAPPED_BUFFERS ? threads : MAPPED_BUFFERS;
    for (int i = 0; i < mapped; i++)
        buffers[i] = take(0);
    for (int i = 0; i < mapped; i++)
        give(buffers[i]);
    return PT_OK;
}

/* Each BLAS library has its own function. A library with none of these keeps its own
 * setting (OMP_NUM_THREADS, …). */
static void device_set_blas_threads(int threads)
{
    static const char *const setters[] = {
        "openblas_set_num_threads", "bli_thread_set_num_threads", "MKL_Set_Num_Threads",
        "nvpl_blas_set_num_threads"};
    for (size_t i = 0; i < sizeof setters / sizeof setters[0]; i++) {
        void (*set)(int);
        *(void **)&set = dlsym(RTLD_DEFAULT, setters[i]);
        if (set)
            set(threads);
    }
}

/* Name and version of the BLAS library, on whose rounding the results depend. */
static void device_name_blas(char *out, size_t size)
{
    static const char *const namers[] = {"openblas_get_config",
                                         "bli_info_get_version_str"};
    const char *said = "";
    for (size_t i = 0; i < sizeof namers / sizeof namers[0] && !*said; i++) {
        const char *(*ask)(void);
        *(void **)&ask = dlsym(RTLD_DEFAULT, namers[i]);
        if (ask)
            said = ask();
    }
    if (strncasecmp(said, PT_BLAS_NAME, strlen(PT_BLAS_NAME)) == 0)
        snprintf(out, size, "%s", said);
    else
        snprintf(out, size, "%s%s%s", PT_BLAS_NAME, *said ? " " : "", said);
    for (size_t end = strlen(out); end > 0 && out[end - 1] == ' ';)
        out[--end] = '\0';
}

pt_status_t pt_device_open_cpu(const pt_device_options_t *options, pt_device_t *device)
{
    struct pt_matmul *matmul = NULL;
    pt_isa_t isa;
    PT_TRY(device_choose_level(options->isa, &isa));
    device->isa = pt_isa_name(isa);
    device->kernels = pt_cpu_kernels(isa);
    PT_TRY(device_make_blas_buffers(options->threads));
    /* OpenMP and the BLAS each have a pool of threads. */
    PT_TRY(
        pt_process_threads_check(2 * (options->threads - 1), "lower run.threads, or "));
    if (isa == PT_ISA_V4)
        PT_TRY(pt_matmul_create(options->threads, &matmul));
    device->state = matmul;
    device->ops = &cpu_ops;
    device->threads = options->threads;
    device_set_blas_threads(options->threads);
    device_name_blas(device->library, sizeof device->library);
    if (matmul)
        pt_matmul_add_name(device->library, sizeof device->library);
    return PT_OK;
}
