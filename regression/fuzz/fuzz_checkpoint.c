/* A checkpoint file, from its first byte to the last element. Inputs are changed in place, and then
 * the checksums of HDF5's metadata are made right again, else HDF5 would refuse nearly all of
 * them at once. Needs no seeds: it makes the file it begins with. */
#include "io/box.h"
#include "io/checkpoint_file.h"
#include "regression/fuzz/fuzz.h"
#include "regression/unit/checkpoint_file.h"

enum { MAX_BYTES = 1 << 15, MAX_BLOCKS = 256, LONGEST_BLOCK = 4096, CHECKSUM = 4 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed);
/* Of libhdf5, in none of its headers: the checksum at the end of every block of metadata. */
uint32_t H5_checksum_metadata(const void *data, size_t size, uint32_t initial);

typedef struct block {
    size_t at, bytes; /* with the checksum */
} block_t;

static pt_comm_t *world;
static uint8_t original[MAX_BYTES];
static size_t original_bytes;
static block_t blocks[MAX_BLOCKS];
static int block_count;

static void find_block(size_t at)
{
    uint32_t stored;

    for (size_t n = 8; n < LONGEST_BLOCK && at + n + CHECKSUM <= original_bytes; n++) {
        memcpy(&stored, original + at + n, sizeof stored);
        if (H5_checksum_metadata(original + at, n, 0) != stored)
            continue;
        FUZZ_CHECK(block_count < MAX_BLOCKS, "too many blocks");
        blocks[block_count++] = (block_t){at, n + CHECKSUM};
        return;
    }
}

/* Blocks begin with the signature of the file or with four capitals. */
static void find_blocks(void)
{
    find_block(0);
    for (size_t at = 8; at + 8 < original_bytes; at++) {
        size_t letters = 0;
        while (letters < 4 && original[at + letters] >= 'A' &&
               original[at + letters] <= 'Z')
            letters++;
        if (letters == 4)
            find_block(at);
    }
    FUZZ_CHECK(block_count > 3, "%d blocks of metadata", block_count);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[96];
    FILE *file;
    int fd;

    (void)argc, (void)argv;
    fuzz_temporary(path, sizeof path);
    fd = mkstemp(path);
    fuzz_begin();
    pt_h5_init();
    pt_engine_t *engine = small_engine();
    FUZZ_CHECK(fd >= 0 && engine, "no file in memory, or no engine");
    world = pt_engine_world(engine);
    close(fd);
    pt_status_t status = small_save(world, path, "[train]\nsteps = 5\n", 0);
    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    file = fopen(path, "rb");
    FUZZ_CHECK(file, "%s", path);
    original_bytes = fread(original, 1, sizeof original, file);
    fclose(file);
    unlink(path);
    find_blocks();
    return 0;
}

static void mend(uint8_t *data, size_t size)
{
    for (int i = 0; i < block_count; i++) {
        const block_t *block = &blocks[i];
        size_t n = block->bytes - CHECKSUM;
        if (block->at + block->bytes > size)
            continue;
        uint32_t sum = H5_checksum_metadata(data + block->at, n, 0);
        memcpy(data + block->at + n, &sum, sizeof sum);
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
    for (uint64_t count = 1 + random / 16 % 3; count > 0 && size >= 8; count--) {
        random = pt_mix64(random);
        const block_t *block = &blocks[random % (uint64_t)block_count];
        size_t at = block->at + random / MAX_BLOCKS % block->bytes;
        if (at + 8 <= size)
            LLVMFuzzerMutate(data + at, 8, 8);
    }
    mend(data, size);
    return size;
}

static pt_status_t read_tensors(pt_checkpoint_reader_t *reader)
{
    int64_t start[PT_CHECKPOINT_DIMS] = {0};
    pt_status_t status = PT_OK;

    for (int i = 0; i < pt_checkpoint_tensors(reader) && status == PT_OK; i++) {
        const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, i);
        double *host;
        PT_TRY(PT_NEW("tensor", (size_t)pt_checkpoint_elements(tensor), &host));
        status = pt_checkpoint_read(reader, i, PT_F64, start, tensor->shape, host);
        pt_free(host);
    }
    return status == PT_OK ? pt_checkpoint_verify_read(reader) : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pt_checkpoint_reader_t *reader;
    int64_t live = pt_alloc_live_bytes();
    char path[32];
    int fd = fuzz_file(data, size, path);

    fuzz_begin();
    pt_status_t status = pt_checkpoint_open(world, path, &reader);
    if (status == PT_OK) {
        FUZZ_CHECK(memchr(pt_checkpoint_header(reader)->build, 0, PT_CHECKPOINT_TEXT),
                   "a text without an end");
        status = read_tensors(reader);
        pt_checkpoint_close(reader);
    }
    fuzz_refusal(status, PT_IO, PT_IO);
    pt_error_clear();
    FUZZ_CHECK(pt_alloc_live_bytes() == live, "%lld bytes are lost",
               (long long)(pt_alloc_live_bytes() - live));
    close(fd);
    return 0;
}
