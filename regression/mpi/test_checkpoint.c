/* TEST np=1,2,4,8 timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: what some ranks wrote under one partition, others read under another. */
#include "regression/tap.h"

#include "penta/base/alloc.h"
#include "penta/io/checkpoint.h"
#include "penta/base/digest.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"

#include <mpi.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TENSORS = 6 };

static pt_checkpoint_tensor_t tensors[TENSORS];
static pt_comm_t *world;

static int sum_over_ranks(int value, void *context)
{
    int64_t sum = value;

    (void)context;
    return pt_comm_sum_int64(world, &sum, 1) == PT_OK ? (int)sum : 1;
}

static void set_tensor(int i, const char *group, const char *name, pt_dtype_t dtype,
                       int64_t a, int64_t b, int64_t c)
{
    pt_checkpoint_tensor_t *t = &tensors[i];
    char full[128];

    snprintf(t->group, sizeof t->group, "%s", group);
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(full, sizeof full, "%s/%s", group, name);
    t->id = pt_name_id(strcmp(group, "model") == 0 ? name : full);
    t->dtype = dtype;
    t->ndim = c > 0 ? 3 : b > 0 ? 2 : 1;
    t->shape[0] = a, t->shape[1] = b, t->shape[2] = c;
}

static void set_tensors(void)
{
    set_tensor(0, "model", "layers.0.w", PT_F32, 37, 29, 0);
    set_tensor(1, "model", "layers.10.experts", PT_F32, 5, 11, 13);
    set_tensor(2, "model", "layers.2.bias", PT_F32, 101, 0, 0);
    set_tensor(3, "model", "head", PT_F64, 17, 8, 0);
    set_tensor(4, "optimizer/exp_avg", "layers.0.w", PT_BF16, 37, 29, 0);
    set_tensor(5, "optimizer/exp_avg_sq", "layers.2.bias", PT_F64, 1, 1, 1);
}

static int64_t dim(int i, int d)
{
    return d < tensors[i].ndim ? tensors[i].shape[d] : 1;
}

/* The whole truth: element `index` of tensor i. Exact in fp32, and in bf16 where that
 * is its type. */
static double value(int i, int64_t index)
{
    int64_t range = tensors[i].dtype == PT_BF16 ? 256 : 65536;
    uint64_t draw = (uint64_t)(index * 2654435761 + i * 40503) >> 3;

    return (double)((int64_t)(draw % (uint64_t)range) - range / 2) / 1024;
}

/* bf16: the upper half of a fp32. */
static uint16_t upper_half(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, 4);
    return (uint16_t)(bits >> 16);
}

static void put(int i, void *data, int64_t at, double x)
{
    if (tensors[i].dtype == PT_F64)
        ((double *)data)[at] = x;
    else if (tensors[i].dtype == PT_BF16)
        ((uint16_t *)data)[at] = upper_half((float)x);
    else
        ((float *)data)[at] = (float)x;
}

/* Cut [0, n) where a hash of `salt` says: part r of `parts`, perhaps empty. */
static void cut(int64_t n, int parts, int r, unsigned salt, int64_t *start,
                int64_t *count)
{
    int64_t edge[65] = {0};

    edge[parts] = n;
    for (int p = 1; p < parts; p++)
        edge[p] = (int64_t)((salt * 7919u + (unsigned)p * 104729u) % (unsigned)(n + 1));
    for (int p = 1; p < parts; p++)
        for (int q = p; q > 1 && edge[q] < edge[q - 1]; q--) {
            int64_t swap = edge[q];
            edge[q] = edge[q - 1];
            edge[q - 1] = swap;
        }
    *start = edge[r];
    *count = edge[r + 1] - edge[r];
}

/* Tensor i is cut along dimension (i + salt) % ndim. */
static pt_hyperslab_t my_slab(int i, unsigned salt)
{
    pt_hyperslab_t slab = {.local = 0};
    int d = (int)(((unsigned)i + salt) % (unsigned)tensors[i].ndim);

    for (int k = 0; k < 3; k++)
        slab.count[k] = dim(i, k);
    cut(dim(i, d), pt_comm_size(world), pt_comm_rank(world), salt + (unsigned)i,
        &slab.start[d], &slab.count[d]);
    return slab;
}

static int64_t index_of(int i, const int64_t start[3], int64_t a, int64_t b, int64_t c)
{
    return ((start[0] + a) * dim(i, 1) + start[1] + b) * dim(i, 2) + start[2] + c;
}

static pt_status_t write_share(pt_checkpoint_writer_t *writer, unsigned salt)
{
    void *data;

    PT_TRY(pt_alloc("test", 4096, 8, &data));
    for (int i = 0; i < TENSORS; i++) {
        int64_t at = 0;
        pt_hyperslab_t slab = my_slab(i, salt);
        const int64_t *start = slab.start, *count = slab.count;
        for (int64_t a = 0; a < count[0]; a++)
            for (int64_t b = 0; b < count[1]; b++)
                for (int64_t c = 0; c < count[2]; c++)
                    put(i, data, at++, value(i, index_of(i, start, a, b, c)));
        pt_status_t status = pt_checkpoint_write(writer, i, &slab, data);
        if (status != PT_OK) {
            pt_free(data);
            return status;
        }
    }
    pt_free(data);
    return PT_OK;
}

static pt_status_t save(const char *path, unsigned salt, int64_t step,
                        pt_verify_t verify, uint64_t *digest)
{
    pt_checkpoint_header_t header = {.step = step,
                                     .samples = 7,
                                     .tokens = 1LL << 40,
                                     .adam_t = 3,
                                     .loss = 2.5,
                                     .loss_scale = 1,
                                     .precision = "fp32",
                                     .build = "b",
                                     .layout = "l"};
    pt_checkpoint_writer_t *writer;

    PT_TRY(pt_checkpoint_create(world, path, tensors, TENSORS, "[train]\nsteps = 3\n",
                                "0 host\n", &writer));
    pt_status_t status = write_share(writer, salt);
    status = pt_checkpoint_publish(writer, status, &header, verify);
    if (digest)
        *digest = header.digest;
    return status;
}

/* Straight from the definition, over the whole tensor. */
static uint64_t digest_of(int i)
{
    uint64_t sum = 0;

    for (int64_t k = 0; k < dim(i, 0) * dim(i, 1) * dim(i, 2); k++) {
        double x = value(i, k);
        float y = (float)x;
        uint64_t bits = 0;
        uint32_t half;
        if (tensors[i].dtype == PT_F64) {
            memcpy(&bits, &x, 8);
        } else if (tensors[i].dtype == PT_BF16) {
            bits = upper_half(y);
        } else {
            memcpy(&half, &y, 4);
            bits = half;
        }
        sum += pt_mix64(pt_mix64(tensors[i].id + (uint64_t)k) ^ bits);
    }
    return sum;
}

static bool read_back(pt_checkpoint_reader_t *reader, int i, unsigned salt,
                      pt_dtype_t dtype)
{
    int64_t at = 0, wrong = 0;
    pt_hyperslab_t slab = my_slab(i, salt);
    const int64_t *start = slab.start, *count = slab.count;
    int t = pt_checkpoint_find_tensor(reader, tensors[i].group, tensors[i].name);
    void *data;

    if (t < 0 || pt_alloc("test", 4096, 8, &data) != PT_OK)
        return false;
    bool ok = pt_checkpoint_read(reader, t, dtype, &slab, true, data) == PT_OK;
    for (int64_t a = 0; a < count[0]; a++)
        for (int64_t b = 0; b < count[1]; b++)
            for (int64_t c = 0; c < count[2]; c++, at++) {
                double x = pt_float_get(dtype, data, at);
                wrong += x != value(i, index_of(i, start, a, b, c));
            }
    pt_free(data);
    return ok && wrong == 0 && pt_checkpoint_tensor_digest(reader, t) == digest_of(i);
}

/* To types that hold every number of the stored one, and to no other. */
static void test_types(void)
{
    static const pt_dtype_t types[] = {PT_F64, PT_F32, PT_BF16};
    pt_checkpoint_reader_t *reader = NULL;
    bool exact = true, refused = true;

    for (int i = 0; i < TENSORS; i++)
        for (int d = 0; d < 3; d++) {
            if (pt_checkpoint_open(world, "a.h5", &reader) != PT_OK)
                return;
            bool wide = types[d] == tensors[i].dtype ||
                        pt_dtype_size(types[d]) > pt_dtype_size(tensors[i].dtype);
            bool read = read_back(reader, i, 5, types[d]);
            exact = exact && (!wide || read);
            refused = refused && (wide || !read);
            pt_error_clear();
            pt_checkpoint_close(reader);
        }
    tap_all(exact, "each type is read as itself and as all wider ones, exactly");
    tap_all(refused, "and as no narrower one");
}

static void test_round_trip(void)
{
    uint64_t digest = 0, wanted = 0, again = 0;
    pt_checkpoint_reader_t *reader = NULL;
    bool ok = true;

    for (int i = 0; i < 4; i++)
        wanted += digest_of(i);
    tap_all(save("a.h5", 1, 100, PT_VERIFY_FULL, &digest) == PT_OK,
            "a file is published");
    tap_all(digest == wanted, "its digest is that of the definition");
    tap_all(access("a.h5.partial", F_OK) != 0, "no partial file is left");
    tap_all(pt_checkpoint_open(world, "a.h5", &reader) == PT_OK, "it opens");
    if (!reader)
        return;
    const pt_checkpoint_header_t *h = pt_checkpoint_header(reader);
    tap_all(h->step == 100 && h->samples == 7 && h->tokens == 1LL << 40 &&
                h->adam_t == 3 && h->loss == 2.5 && h->loss_scale == 1 &&
                h->digest == wanted && strcmp(h->precision, "fp32") == 0 &&
                strcmp(h->layout, "l") == 0,
            "the header comes back");
    tap_all(strcmp(pt_checkpoint_config(reader), "[train]\nsteps = 3\n") == 0 &&
                strcmp(pt_checkpoint_hosts(reader), "0 host\n") == 0 &&
                pt_checkpoint_tensors(reader) == TENSORS,
            "texts and number of tensors come back");
    for (int i = 0; i < TENSORS; i++)
        ok = read_back(reader, i, 5, i % 2 ? PT_F64 : PT_F32) && ok;
    tap_all(ok, "elements come back under another partition, in their type or a wider");
    tap_all(pt_checkpoint_verify_read(reader) == PT_OK, "and with their digests");
    pt_checkpoint_close(reader);
    tap_all(save("a.h5", 9, 100, PT_VERIFY_DIGEST, &again) == PT_OK && again == wanted,
            "the same step is published again, cut differently, with the same digest");
}

/* Damage is found wherever one rank reads it. */
static void test_damage(void)
{
    pt_checkpoint_reader_t *reader = NULL;
    bool ok = true;

    tap_all(save("d.h5", 2, 1, PT_VERIFY_DIGEST, NULL) == PT_OK, "a file to damage");
    if (pt_comm_rank(world) == 0) {
        float x = (float)value(0, 700), y = (float)value(0, 701);
        float pattern[2] = {x, y}, *data = NULL;
        FILE *file = fopen("d.h5", "r+b");
        char bytes[1 << 16];
        size_t n = fread(bytes, 1, sizeof bytes, file);
        for (size_t k = 0; k + 8 <= n && !data; k++)
            if (memcmp(bytes + k, pattern, 8) == 0) {
                fseek(file, (long)k, SEEK_SET);
                fputc(bytes[k] ^ 1, file);
                data = pattern;
            }
        fclose(file);
        ok = data != NULL;
    }
    tap_all(ok && pt_comm_barrier(world) == PT_OK, "one bit of one element is turned");
    tap_all(pt_checkpoint_open(world, "d.h5", &reader) == PT_OK, "the file opens");
    for (int i = 0; i < TENSORS && reader; i++)
        (void)read_back(reader, i, 3, tensors[i].dtype);
    tap_all(reader && pt_checkpoint_verify_read(reader) == PT_DAMAGED,
            "verify_read fails on all ranks");
    tap_all(strstr(pt_error_last()->text, "model/layers.0.w") != NULL,
            "naming the tensor");
    pt_error_clear();
    pt_checkpoint_close(reader);
}

static void test_failure(const char *site, int rank, const char *kind, bool published)
{
    char plan[128];
    pt_status_t status;

    if (pt_comm_rank(world) == 0)
        unlink("f.h5");
    pt_comm_barrier(world);
    snprintf(plan, sizeof plan, "%s:%d:*:%s", site, rank, kind);
    setenv("PENTA_FAULT", plan, 1);
    pt_fault_init();
    status = save("f.h5", 4, 1, PT_VERIFY_FULL, NULL);
    setenv("PENTA_FAULT", "", 1);
    pt_fault_init();
    tap_all(status == PT_IO, "%s on rank %d: IO on all", plan, rank);
    tap_all(strstr(pt_error_last()->text, "f.h5") != NULL &&
                strstr(pt_error_last()->text,
                       strcmp(kind, "io") == 0 ? "injected" : "No space") != NULL,
            "all know why: %s", pt_error_last()->text);
    pt_error_clear();
    tap_all(
        (access("f.h5", F_OK) == 0) == published && access("f.h5.partial", F_OK) != 0,
        "%s", published ? "it was published before" : "nothing is published or left");
    tap_all(save("f.h5", 4, 1, PT_VERIFY_DIGEST, NULL) == PT_OK, "the next save works");
}

static void test_failures(void)
{
    int last = pt_comm_size(world) - 1;

    test_failure("checkpoint.create", last, "io", false);
    test_failure("checkpoint.write", last, "nospace", false);
    test_failure("checkpoint.write", 0, "io", false);
    test_failure("checkpoint.close", last, "io", false);
    test_failure("checkpoint.rename", 0, "nospace", false);
    test_failure("checkpoint.renamed", 0, "io", true);
    tap_all(save("no/such/dir.h5", 1, 1, PT_VERIFY_FULL, NULL) == PT_IO,
            "no directory: IO: %s", pt_error_last()->text);
    pt_error_clear();
}

/* A share that nobody writes must not go unnoticed. */
static void test_incomplete(void)
{
    pt_checkpoint_header_t header = {0};
    pt_checkpoint_writer_t *writer = NULL;

    tap_all(pt_checkpoint_create(world, "i.h5", tensors, TENSORS, "", "", &writer) ==
                PT_OK,
            "empty texts are fine");
    if (!writer)
        return;
    tap_all(pt_checkpoint_publish(writer, PT_OK, &header, PT_VERIFY_FULL) == PT_INTERNAL,
            "nothing written: refused: %s", pt_error_last()->text);
    pt_error_clear();
    tap_all(access("i.h5", F_OK) != 0 && access("i.h5.partial", F_OK) != 0,
            "and nothing left");
}

static void test_directory(void)
{
    static const int64_t steps[] = {10, 100000000, 30, 20, 40};
    static const int64_t kept[] = {100000000, 40, 30, 20};
    pt_checkpoint_entry_t *list = NULL;
    char path[4096];
    int count = -1;
    bool ok = true;

    if (pt_comm_rank(world) == 0) {
        mkdir("dir", 0777);
        for (int i = 0; i < 5; i++)
            fclose(fopen(pt_checkpoint_path("dir", steps[i], path, sizeof path), "w"));
        fclose(fopen("dir/step_00000050.h5.partial", "w"));
        fclose(fopen("dir/step_5.h5", "w"));
        fclose(fopen("dir/step_00000060.h5.old", "w"));
        pt_checkpoint_retain("dir", 30, 1, 20);
        ok = pt_checkpoint_list("dir", &list, &count) == PT_OK && count == 4;
        for (int i = 0; i < 4 && ok; i++)
            ok = list[i].step == kept[i];
        ok = ok && strcmp(list[0].path, "dir/step_100000000.h5") == 0;
        pt_free(list);
        ok = ok && access("dir/step_00000050.h5.partial", F_OK) != 0 &&
             access("dir/step_5.h5", F_OK) == 0 &&
             access("dir/step_00000060.h5.old", F_OK) == 0;
        ok = ok && pt_checkpoint_list("none", &list, &count) == PT_OK && count == 0;
    }
    tap_all(ok,
            "newest, multiples of 20 and later steps are kept, strangers left alone");
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    pt_engine_options_t options = {.gpu_direct = PT_GPU_DIRECT_OFF};
    pt_transport_t *transport;
    pt_engine_t *engine;
    int rank, size, status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    pt_log_set_rank(rank, size, "");
    if (pt_transport_open_mpi(&comm, &transport) != PT_OK ||
        pt_engine_create(transport, &options, &engine) != PT_OK)
        return 1;
    world = pt_engine_world(engine);
    tap_mpi(rank, sum_over_ranks, NULL);
    set_tensors();
    test_round_trip();
    test_types();
    test_damage();
    test_failures();
    test_incomplete();
    test_directory();
    status = tap_done();
    pt_engine_destroy(engine);
    pt_transport_close(transport);
    MPI_Finalize();
    return status;
}
