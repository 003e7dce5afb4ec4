/* SPDX-License-Identifier: Apache-2.0 */
#include "src/ops/cpu/matmul.h"
#include "pt_autoconf.h"

#if defined(HAVE_DNNL) && defined(__x86_64__)
#include "penta/base/alloc.h"
#include "penta/base/rng.h"
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* The cache is a hash table of SETS × WAYS products. A full set replaces its first
 * entry. */
enum { SETS = 128, WAYS = 8 };
enum { SOURCE, WEIGHTS, RESULT, OPERANDS };

typedef struct product_key {
    int64_t rows, cols, depth, stride[OPERANDS];
    int64_t trans_a, trans_b, accumulate, narrow;
} product_key_t;

typedef struct product {
    bool used;
    product_key_t key;
    dnnl_primitive_t primitive; /* NULL: oneDNN has no suitable implementation */
    dnnl_memory_t memory[OPERANDS];
} product_t;

struct pt_matmul {
    int threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    product_t products[SETS][WAYS];
};

static pt_status_t matmul_check(dnnl_status_t status, const char *call)
{
    PT_CHECK(status == dnnl_success, PT_INTERNAL, "oneDNN: %s failed with status %d",
             call, (int)status);
    return PT_OK;
}
#define DNNL(call) PT_TRY(matmul_check((call), #call))

static void matmul_clear(product_t *product)
{
    for (int i = 0; i < OPERANDS; i++)
        if (product->memory[i])
            (void)dnnl_memory_destroy(product->memory[i]);
    if (product->primitive)
        (void)dnnl_primitive_destroy(product->primitive);
    *product = (product_t){0};
}

pt_status_t pt_matmul_create(int threads, struct pt_matmul **out)
{
    struct pt_matmul *matmul = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    if (!__builtin_cpu_supports("avx512bf16"))
        return PT_OK;
    PT_TRY(PT_NEW("bf16 products", 1, &matmul));
    matmul->threads = threads;
    PT_TRY_GOTO(destroy, matmul_check(dnnl_engine_create(&matmul->engine, dnnl_cpu, 0),
                                      "dnnl_engine_create"));
    PT_TRY_GOTO(destroy, matmul_check(dnnl_stream_create(&matmul->stream, matmul->engine,
                                                         dnnl_stream_in_order),
                                      "dnnl_stream_create"));
    *out = matmul;
    return PT_OK;
destroy:
    pt_matmul_destroy(matmul);
    return status;
}

void pt_matmul_destroy(struct pt_matmul *matmul)
{
    if (!matmul)
        return;
    for (int i = 0; i < SETS; i++)
        for (int j = 0; j < WAYS; j++)
            matmul_clear(&matmul->products[i][j]);
    if (matmul->stream)
        (void)dnnl_stream_destroy(matmul->stream);
    if (matmul->engine)
        (void)dnnl_engine_destroy(matmul->engine);
    pt_free(matmul);
}

void pt_matmul_add_name(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    size_t length = strlen(text);
    snprintf(text + length, size - length, " and oneDNN %d.%d.%d", version->major,
             version->minor, version->patch);
}

/* The row stride of a matrix of one row is arbitrary. */
static int64_t matmul_leading(const pt_tensor_t *x)
{
    return x->shape[0] > 1 ? x->stride[0] : x->shape[1];
}

static product_key_t matmul_key_of(const pt_op_gemm_t *a)
{
    return (product_key_t){
        .rows = a->c.shape[0],
        .cols = a->c.shape[1],
        .depth = a->a.shape[a->trans_a ? 0 : 1],
        .stride = {matmul_leading(&a->a), matmul_leading(&a->b), matmul_leading(&a->c)},
        .trans_a = a->trans_a,
        .trans_b = a->trans_b,
        .accumulate = a->accumulate,
        .narrow = a->c.dtype == PT_BF16};
}

/* Describes op(a), op(b) and c to oneDNN. A transposition becomes a pair of strides. */
static pt_status_t matmul_describe(const product_key_t *key,
                                   dnnl_memory_desc_t out[OPERANDS])
{
    const int64_t *s = key->stride;
    const dnnl_dims_t shape[OPERANDS] = {
        {key->rows, key->depth}, {key->depth, key->cols}, {key->rows, key->cols}};
    const dnnl_dims_t stride[OPERANDS] = {
        {key->trans_a ? 1 : s[SOURCE], key->trans_a ? s[SOURCE] : 1},
        {key->trans_b ? 1 : s[WEIGHTS], key->trans_b ? s[WEIGHTS] : 1},
        {s[RESULT], 1}};
    for (int i = 0; i < OPERANDS; i++)
        DNNL(dnnl_memory_desc_init_by_strides(
            &out[i], 2, shape[i], i < RESULT || key->narrow ? dnnl_bf16 : dnnl_f32,
            stride[i]));
    return PT_OK;
}

/* To accumulate, oneDNN reads c, adds in fp32, and rounds once if c is bf16. */
static pt_status_t matmul_attributes(const product_key_t *key,
                                     dnnl_scratchpad_mode_t mode,
                                     dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t sum = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    DNNL(dnnl_primitive_attr_create(out));
    PT_TRY(matmul_check(dnnl_primitive_attr_set_scratchpad_mode(*out, mode),
                        "scratchpad"));
    if (!key->accumulate)
        return PT_OK;
    DNNL(dnnl_post_ops_create(&sum));
    PT_TRY_GOTO(done, matmul_check(dnnl_post_ops_append_sum(sum, 1.0f), "append_sum"));
    PT_TRY_GOTO(done, matmul_check(dnnl_primitive_attr_set_post_ops(*out, sum),
                                   "set_post_ops"));
done:
    (void)dnnl_post_ops_destroy(sum);
    return status;
}

/* Suitable implementations are not the reference loops and need little scratch. For c
 * in fp32 they need none, which leaves only the implementation that accepts any
 * strides. */
static bool matmul_is_good(const_dnnl_primitive_desc_t way, const product_key_t *key,
                           int threads)
{
    const char *name = "";
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(way, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    size_t most = key->narrow ? (size_t)PT_MATMUL_SCRATCH * (size_t)threads : 0;
    if (dnnl_primitive_desc_query(way, dnnl_query_impl_info_str, 0, &name) !=
        dnnl_success)
        return false;
    return strncmp(name, "ref", 3) != 0 && bytes <= most;
}

/* Finds the index of the first suitable implementation in oneDNN's list; -1: none. */
static pt_status_t matmul_find_way(const struct pt_matmul *matmul,
                                   const product_key_t *key,
                                   const dnnl_matmul_desc_t *product, int *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_iterator_t ways = NULL;
    pt_status_t status = PT_OK;
    bool good = false;

    *out = -1;
    PT_TRY_GOTO(done, matmul_attributes(key, dnnl_scratchpad_mode_user, &attr));
    if (dnnl_primitive_desc_iterator_create(&ways, product, attr, matmul->engine,
                                            NULL) != dnnl_success)
        goto done;
    for (int place = 0; !good; place++) {
        dnnl_primitive_desc_t way = dnnl_primitive_desc_iterator_fetch(ways);
        good = way && matmul_is_good(way, key, matmul->threads);
        (void)dnnl_primitive_desc_destroy(way);
        if (good)
            *out = place;
        else if (dnnl_primitive_desc_iterator_next(ways) != dnnl_success)
            break;
    }
done:
    if (ways)
        (void)dnnl_primitive_desc_iterator_destroy(ways);
    if (attr)
        (void)dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Compiles the implementation at index `place`. oneDNN owns its scratch. */
static pt_status_t matmul_compile(const struct pt_matmul *matmul,
                                  const product_key_t *key,
                                  const dnnl_matmul_desc_t *product, int place,
                                  dnnl_primitive_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_iterator_t ways = NULL;
    dnnl_primitive_desc_t way = NULL;
    pt_status_t status = PT_OK;

    PT_TRY_GOTO(done, matmul_attributes(key, dnnl_scratchpad_mode_library, &attr));
    PT_TRY_GOTO(done, matmul_check(dnnl_primitive_desc_iterator_create(
                                       &ways, product, attr, matmul->engine, NULL),
                                   "iterator_create"));
    for (int i = 0; i < place; i++)
        PT_TRY_GOTO(done, matmul_check(dnnl_primitive_desc_iterator_next(ways),
                                       "iterator_next"));
    way = dnnl_primitive_desc_iterator_fetch(ways);
    PT_TRY_GOTO(done,
                matmul_check(dnnl_primitive_create(out, way), "primitive_create"));
done:
    if (way)
        (void)dnnl_primitive_desc_destroy(way);
    if (ways)
        (void)dnnl_primitive_desc_iterator_destroy(ways);
    if (attr)
        (void)dnnl_primitive_attr_destroy(attr);
    return status;
}

static pt_status_t matmul_make(const struct pt_matmul *matmul, const product_key_t *key,
                               product_t *out)
{
    dnnl_memory_desc_t shapes[OPERANDS];
    dnnl_matmul_desc_t product;
    int place = -1;

    out->used = true;
    out->key = *key;
    PT_TRY(matmul_describe(key, shapes));
    DNNL(dnnl_matmul_desc_init(&product, &shapes[SOURCE], &shapes[WEIGHTS], NULL,
                               &shapes[RESULT]));
    PT_TRY(matmul_find_way(matmul, key, &product, &place));
    if (place < 0)
        return PT_OK;
    PT_TRY(matmul_compile(matmul, key, &product, place, &out->primitive));
    for (int i = 0; i < OPERANDS; i++)
        DNNL(dnnl_memory_create(&out->memory[i], &shapes[i], matmul->engine,
                                DNNL_MEMORY_NONE));
    return PT_OK;
}

static pt_status_t matmul_find(struct pt_matmul *matmul, const product_key_t *key,
                               product_t **out)
{
    const int64_t words[] = {key->rows,
                             key->cols,
                             key->depth,
                             key->stride[SOURCE],
                             key->stride[WEIGHTS],
                             key->stride[RESULT],
                             key->trans_a | key->trans_b << 1 | key->accumulate << 2 |
                                 key->narrow << 3};
    uint64_t hash = 0;
    product_t *set, *free = NULL;
    pt_status_t status = PT_OK;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = pt_mix64(hash ^ (uint64_t)words[i]);
    set = matmul->products[hash % SETS];
    for (int i = 0; i < WAYS; i++) {
        *out = &set[i];
        if (set[i].used && memcmp(&set[i].key, key, sizeof *key) == 0)
            return PT_OK;
        if (!set[i].used && !free)
            free = &set[i];
    }
    *out = free ? free : &set[0];
    matmul_clear(*out);
    PT_TRY_GOTO(failed, matmul_make(matmul, key, *out));
    return PT_OK;
failed:
    matmul_clear(*out);
    return status;
}

static pt_status_t matmul_execute(struct pt_matmul *matmul, const product_t *product,
                                  const pt_op_gemm_t *a)
{
    void *const data[OPERANDS] = {a->a.data, a->b.data, a->c.data};
    const dnnl_exec_arg_t args[OPERANDS] = {{DNNL_ARG_SRC, product->memory[SOURCE]},
                                            {DNNL_ARG_WEIGHTS, product->memory[WEIGHTS]},
                                            {DNNL_ARG_DST, product->memory[RESULT]}};
    for (int i = 0; i < OPERANDS; i++)
        DNNL(dnnl_memory_set_data_handle(product->memory[i], data[i]));
    DNNL(dnnl_primitive_execute(product->primitive, matmul->stream, OPERANDS, args));
    DNNL(dnnl_stream_wait(matmul->stream));
    return PT_OK;
}

/* Compiles a product if needed and, if `done` is not NULL, runs it. oneDNN compiles
 * for, and runs on, as many threads as OpenMP would use. */
static pt_status_t matmul_use(struct pt_matmul *matmul, const pt_op_gemm_t *a,
                              bool *done)
{
    product_key_t key = matmul_key_of(a);
    product_t *product = NULL;
    int threads = omp_get_max_threads();
    pt_status_t status;

    omp_set_num_threads(matmul->threads);
    status = matmul_find(matmul, &key, &product);
    if (done)
        *done = status == PT_OK && product->primitive != NULL;
    if (done && *done)
        status = matmul_execute(matmul, product, a);
    omp_set_num_threads(threads);
    return status;
}

pt_status_t pt_matmul_run(struct pt_matmul *matmul, const pt_op_gemm_t *a, bool *done)
{
    return matmul_use(matmul, a, done);
}

pt_status_t pt_matmul_prepare(struct pt_matmul *matmul, const pt_op_gemm_t *a)
{
    return matmul_use(matmul, a, NULL);
}

#else

void pt_matmul_add_name(char *text, size_t size)
{
    (void)text, (void)size;
}

pt_status_t pt_matmul_create(int threads, struct pt_matmul **out)
{
    (void)threads;
    *out = NULL;
    return PT_OK;
}

void pt_matmul_destroy(struct pt_matmul *matmul)
{
    (void)matmul;
}

pt_status_t pt_matmul_run(struct pt_matmul *matmul, const pt_op_gemm_t *a, bool *done)
{
    (void)matmul, (void)a;
    *done = false;
    return PT_OK;
}

pt_status_t pt_matmul_prepare(struct pt_matmul *matmul, const pt_op_gemm_t *a)
{
    (void)matmul, (void)a;
    return PT_OK;
}

#endif
