/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint file, from its first byte to the last element. Needs no seeds: it makes
 * the file it begins with. Inputs are changed in place: anything as damage would, the
 * values of attributes behind right checksums. Not so the rest of HDF5's metadata, for
 * HDF5 1.10 is no match for that: it frees what was never allocated (links of groups),
 * reads beyond buffers (names and types of attributes) and takes gigabytes (heaps,
 * B-trees). */
#include "io/elements.h"
#include "io/checkpoint_file.h"
#include "regression/fuzz/fuzz.h"
#include "regression/unit/checkpoint_file.h"

enum { MAX_BYTES = 1 << 15, MAX_BLOCKS = 16, HEAP_BLOCK = 1024, HEAP_HEAD = 32 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed);
/* Of libhdf5, in none of its headers. */
uint32_t H5_checksum_metadata(const void *data, size_t size, uint32_t initial);

typedef struct block {
    size_t at,
        checksum; /* where it begins; where its checksum is, counted from there */
} block_t;

static pt_comm_t *world;
static char path[96]; /* HDF5 takes no file without a name */
static uint8_t original[MAX_BYTES];
static size_t original_bytes;
static size_t values[MAX_BYTES],
    value_count; /* places of the bytes of attributes' values */
static block_t blocks[MAX_BLOCKS];
static int block_count;

/* The checksum of a block of a heap is taken with zeros in its place. */
static uint32_t checksum_of(const uint8_t *data, size_t checksum)
{
    uint8_t copy[HEAP_BLOCK];

    memcpy(copy, data, sizeof copy);
    memset(copy + checksum, 0, sizeof(uint32_t));
    return H5_checksum_metadata(copy, sizeof copy, 0);
}

static void find_block(size_t at)
{
    uint32_t stored;

    for (size_t place = 4; place < HEAP_HEAD; place++) {
        memcpy(&stored, original + at + place, sizeof stored);
        if (checksum_of(original + at, place) != stored)
            continue;
        FUZZ_CHECK(block_count < MAX_BLOCKS, "too many blocks");
        blocks[block_count++] = (block_t){at, place};
        return;
    }
}

static void find_blocks(void)
{
    for (size_t at = 0; at + HEAP_BLOCK <= original_bytes; at++)
        if (memcmp(original + at, "FHDB", 4) == 0)
            find_block(at);
    FUZZ_CHECK(block_count > 0, "no block of attributes");
}

static size_t load(uint8_t *out)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    FUZZ_CHECK(file, "%s", path);
    n = fread(out, 1, MAX_BYTES, file);
    fclose(file);
    return n;
}

/* Where other values of the file's attributes stand, values stand. */
static void find_values(void)
{
    static uint8_t other[MAX_BYTES];
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), id;

    memset(other, 0xA5, sizeof other);
    for (hsize_t i = 0; (id = H5Aopen_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i,
                                             H5P_DEFAULT, H5P_DEFAULT)) >= 0;
         i++) {
        hid_t type = H5Aget_type(id);
        FUZZ_CHECK(H5Awrite(id, type, other) >= 0, "attribute %d", (int)i);
        H5Tclose(type);
        H5Aclose(id);
    }
    H5Fclose(file);
    FUZZ_CHECK(load(other) == original_bytes, "another size");
    for (int i = 0; i < block_count; i++)
        for (size_t k = HEAP_HEAD; k < HEAP_BLOCK; k++)
            if (other[blocks[i].at + k] != original[blocks[i].at + k])
                values[value_count++] = blocks[i].at + k;
    FUZZ_CHECK(value_count > 100, "%zu bytes of values", value_count);
}

/* The heaps are again as they were but for the values in them; their checksums are
 * right. */
static void mend(uint8_t *data, size_t size)
{
    static uint8_t kept[MAX_BYTES];

    if (size < original_bytes)
        return;
    memcpy(kept, data, original_bytes);
    for (int i = 0; i < block_count; i++)
        memcpy(data + blocks[i].at, original + blocks[i].at, HEAP_BLOCK);
    for (size_t i = 0; i < value_count; i++)
        data[values[i]] = kept[values[i]];
    for (int i = 0; i < block_count; i++) {
        uint8_t *block = data + blocks[i].at;
        uint32_t sum = checksum_of(block, blocks[i].checksum);
        memcpy(block + blocks[i].checksum, &sum, sizeof sum);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    uint64_t random = pt_mix64(seed + 1);

    if ((size < 8 || random % 16 == 0) && max_size >= original_bytes) {
        memcpy(data, original, original_bytes);
        size = original_bytes;
    }
    random = pt_mix64(random);
    if (random % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size); /* length and checksums change */
    for (uint64_t count = 1 + random / 16 % 4; count > 0 && size >= 8; count--) {
        random = pt_mix64(random);
        size_t at = random % 2 ? random / 2 % size : values[random / 2 % value_count];
        if (at < size)
            LLVMFuzzerMutate(data + at, 1, 1);
    }
    if (random / 4 % 4 > 0)
        mend(data, size);
    return size;
}

static pt_status_t read_tensors(pt_checkpoint_reader_t *reader)
{
    pt_status_t status = PT_OK;

    for (int i = 0; i < pt_checkpoint_tensors(reader) && status == PT_OK; i++) {
        const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, i);
        pt_hyperslab_t all = pt_hyperslab_whole(tensor->ndim, tensor->shape);
        double *host;
        PT_TRY(PT_NEW("tensor", (size_t)pt_checkpoint_elements(tensor), &host));
        status = pt_checkpoint_read(reader, i, PT_F64, &all, true, host);
        pt_free(host);
    }
    return status == PT_OK ? pt_checkpoint_verify_read(reader) : status;
}

static pt_status_t read_file(const uint8_t *data, size_t size)
{
    pt_checkpoint_reader_t *reader;
    FILE *file = fopen(path, "wb");

    FUZZ_CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0, "%s",
               path);
    PT_TRY(pt_checkpoint_open(world, path, &reader));
    FUZZ_CHECK(memchr(pt_checkpoint_header(reader)->build, 0, PT_CHECKPOINT_TEXT),
               "a text without an end");
    pt_status_t status = read_tensors(reader);
    pt_checkpoint_close(reader);
    return status;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int fd;

    (void)argc, (void)argv;
    fuzz_temporary(path, sizeof path);
    fd = mkstemp(path);
    fuzz_begin();
    pt_h5_init();
    /* HDF5 keeps what one file's caches took for the next: most time went into new
     * pages. */
    FUZZ_CHECK(H5set_free_list_limits(-1, -1, -1, -1, -1, -1) >= 0, "no limits");
    pt_engine_t *engine = small_engine();
    FUZZ_CHECK(fd >= 0 && engine, "no file in memory, or no engine");
    world = pt_engine_world(engine);
    close(fd);
    pt_status_t status = small_save(world, path, "[train]\nsteps = 5\n", 0);
    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    original_bytes = load(original);
    status = read_file(original, original_bytes);
    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    find_blocks();
    find_values();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = pt_alloc_live_bytes();

    fuzz_begin();
    fuzz_refusal(read_file(data, size), PT_DAMAGED, PT_IO);
    pt_error_clear();
    FUZZ_CHECK(pt_alloc_live_bytes() == live, "%lld bytes are lost",
               (long long)(pt_alloc_live_bytes() - live));
    FUZZ_CHECK(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL) <= 0,
               "objects of HDF5 are still open");
    return 0;
}
