/* TEST timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are no checkpoints, or damaged, or made to do harm: one clear message
 * each. */
#include "regression/tap.h"
#include "regression/unit/checkpoint_file.h"

#include "penta/base/fault.h"

#include "io/h5.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 16 };

static pt_comm_t *world;
static unsigned char original[MAX_BYTES], bytes[MAX_BYTES];
static size_t original_bytes;
static pt_checkpoint_header_t original_header;

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (file) {
        fwrite(data, 1, size, file);
        fclose(file);
    }
}

/* Opens and reads all; true elements and header if it says OK. */
static pt_status_t try_file(const char *path, bool *right)
{
    pt_checkpoint_reader_t *reader;
    pt_status_t status = pt_checkpoint_open(world, path, &reader);
    double x[SMALL_ELEMENTS];

    *right = true;
    if (status != PT_OK)
        return status;
    *right = memcmp(pt_checkpoint_header(reader), &original_header,
                    sizeof original_header) == 0 &&
             strcmp(pt_checkpoint_config(reader), "[a]\nb = 1\n") == 0 &&
             strcmp(pt_checkpoint_hosts(reader), "0 host\n") == 0;
    for (int i = 0; i < SMALL_TENSORS && status == PT_OK; i++) {
        int t = pt_checkpoint_find_tensor(reader, small_tensors[i].group,
                                          small_tensors[i].name);
        if (t < 0) {
            *right = false;
            continue;
        }
        pt_hyperslab_t all =
            pt_hyperslab_whole(small_tensors[i].ndim, small_tensors[i].shape);
        status = pt_checkpoint_read(reader, t, PT_F64, &all, true, x);
        for (int64_t k = 0; status == PT_OK && k < small_elements(i); k++)
            *right = *right && x[k] == small_value(i, k);
    }
    if (status == PT_OK)
        status = pt_checkpoint_verify_read(reader);
    pt_checkpoint_close(reader);
    return status;
}

/* The message names the file and holds `defect`. */
static void fails(const char *path, pt_status_t wanted, const char *defect)
{
    bool right;
    pt_status_t status = try_file(path, &right);
    const char *text = pt_error_last()->text;

    tap_ok(status == wanted && strstr(text, path) && strstr(text, defect), "%s: %s",
           defect, text);
    pt_error_clear();
}

static void expect(const char *path, const char *defect)
{
    fails(path, PT_DAMAGED, defect);
}

/* What cannot be read is not damaged. */
static void test_unreadable(void)
{
    mkdir("folder", 0777);
    mkfifo("fifo", 0666);
    symlink("nowhere", "dangling");
    symlink("loop", "loop");
    write_file("file", "x", 1);
    fails("missing", PT_IO, "No such file");
    fails("file/missing", PT_IO, "Not a directory");
    fails("dangling", PT_IO, "a dangling link");
    fails("loop", PT_IO, "symbolic links");
    fails("folder", PT_IO, "is a directory");
    fails("fifo", PT_IO, "not a regular file");
    fails("/dev/null", PT_IO, "not a regular file");
    write_file("locked", original, original_bytes);
    chmod("locked", 0);
    if (access("locked", R_OK) == 0)
        tap_skip("this user can read anything");
    else
        fails("locked", PT_IO, "Permission denied");
    write_file("broken", original, original_bytes);
    setenv("PENTA_FAULT", "checkpoint.open:*:*:io", 1);
    pt_fault_init();
    fails("broken", PT_IO, "injected");
    setenv("PENTA_FAULT", "checkpoint.read:*:*:io", 1);
    pt_fault_init();
    fails("broken", PT_IO, "injected");
    setenv("PENTA_FAULT", "", 1);
    pt_fault_init();
}

/* One that does not lie in the tensor is a fault of the caller: it is named, and
 * nothing is read. */
static void test_hyperslab(void)
{
    pt_checkpoint_reader_t *reader = NULL;
    double x[SMALL_ELEMENTS] = {-7};

    if (pt_checkpoint_open(world, "good", &reader) != PT_OK) {
        tap_ok(false, "%s", pt_error_last()->text);
        return;
    }
    const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, 0);
    pt_hyperslab_t wrong = pt_hyperslab_whole(tensor->ndim, tensor->shape);
    wrong.start[tensor->ndim - 1] = 1;
    pt_status_t status = pt_checkpoint_read(reader, 0, PT_F64, &wrong, true, x);
    tap_ok(status == PT_INTERNAL && x[0] == -7 &&
               strstr(pt_error_last()->text, tensor->name) &&
               strstr(pt_error_last()->text, "exceeds dimension"),
           "a wrong hyperslab: %s", pt_error_last()->text);
    pt_error_clear();
    pt_checkpoint_close(reader);
}

/* Elements that several ranks read are counted by one; a second count is found. */
static void test_counts(void)
{
    pt_checkpoint_reader_t *reader = NULL;
    pt_status_t status = pt_checkpoint_open(world, "good", &reader);
    const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, 0);
    pt_hyperslab_t all = pt_hyperslab_whole(tensor->ndim, tensor->shape);
    double x[SMALL_ELEMENTS];

    for (int i = 0; i < 3 && status == PT_OK; i++)
        status = pt_checkpoint_read(reader, 0, PT_F64, &all, i == 1, x);
    if (status == PT_OK)
        status = pt_checkpoint_verify_read(reader);
    tap_ok(status == PT_OK, "read three times, counted once: %s", pt_error_last()->text);
    pt_error_clear();
    if (status == PT_OK)
        status = pt_checkpoint_read(reader, 0, PT_F64, &all, true, x);
    tap_ok(status == PT_OK && pt_checkpoint_verify_read(reader) == PT_INTERNAL,
           "counted twice: %s", pt_error_last()->text);
    pt_error_clear();
    pt_checkpoint_close(reader);
}

static void test_not_checkpoints(void)
{
    static const char line[] = "[train]\nsteps = 3\n";

    write_file("empty", "", 0);
    write_file("text", line, sizeof line - 1);
    write_file("truncated", original, original_bytes / 2);
    memcpy(bytes, original, original_bytes);
    bytes[9] ^= 0xff;
    write_file("superblock", bytes, original_bytes);
    hid_t file = H5Fcreate("foreign", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    expect("empty", "is empty");
    expect("text", "not a HDF5 file");
    expect("truncated", "HDF5 cannot open it");
    expect("superblock", "HDF5");
    expect("foreign", "not a checkpoint of penta");
}

static void test_truncations(void)
{
    int wrong = 0, count = 0;
    bool right;

    for (size_t n = 0; n < original_bytes; n += n < 256 ? 1 : 61, count++) {
        write_file("cut", original, n);
        pt_status_t status = try_file("cut", &right);
        wrong += status != PT_DAMAGED || strstr(pt_error_last()->text, "cut: ") == NULL;
        pt_error_clear();
    }
    write_file("cut", original, original_bytes - 1);
    wrong += try_file("cut", &right) != PT_DAMAGED;
    pt_error_clear();
    tap_ok(wrong == 0, "%d truncated files are refused by name", count + 1);
}

static void test_corruptions(void)
{
    int refused = 0, harmless = 0, wrong = 0;
    uint64_t state = 42;
    bool right;

    for (int i = 0; i < 600; i++) {
        memcpy(bytes, original, original_bytes);
        for (int k = 0; k <= i % 4; k++) {
            state = pt_mix64(state + 0x9E3779B97F4A7C15u);
            bytes[state % original_bytes] ^= (unsigned char)(1 + (state >> 40) % 255);
        }
        write_file("corrupt", bytes, original_bytes);
        pt_status_t status = try_file("corrupt", &right);
        if (status == PT_DAMAGED)
            refused++;
        else if (status == PT_OK && right)
            harmless++;
        else
            wrong++;
        pt_error_clear();
    }
    tap_ok(wrong == 0 && refused > 100,
           "600 corrupted files: %d refused, %d with all content right, %d wrong",
           refused, harmless, wrong);
}

/* ---- made by hand ---- */

static hid_t edit(const char *path)
{
    write_file(path, original, original_bytes);
    return H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
}

static void put_attribute(hid_t object, const char *name, hid_t type, int n,
                          const void *value)
{
    hsize_t size = (hsize_t)n;
    hid_t space = n > 0 ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR);

    H5Adelete(object, name);
    hid_t id = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(id, type, value);
    H5Aclose(id);
    H5Sclose(space);
}

static void test_attributes(void)
{
    static const char long_text[4096] = {[0 ... 4094] = 'x'};
    int64_t negative = -1, future = 99, two[2] = {1, 2};
    double real = 3;
    hid_t string = H5Tcopy(H5T_C_S1), variable = H5Tcopy(H5T_C_S1), file;
    const char *pointer = "x";

    H5Tset_size(string, sizeof long_text);
    H5Tset_size(variable, H5T_VARIABLE);
    file = edit("a1"), put_attribute(file, "step", H5T_STD_I64LE, 0, &negative);
    H5Fclose(file), expect("a1", "step is negative");
    file = edit("a2"), put_attribute(file, "step", H5T_IEEE_F64LE, 0, &real);
    H5Fclose(file), expect("a2", "attribute step of the file has a wrong type");
    file = edit("a3"), put_attribute(file, "tokens", H5T_STD_I64LE, 2, two);
    H5Fclose(file), expect("a3", "attribute tokens of the file has a wrong type");
    file = edit("a4"), put_attribute(file, "build", string, 0, long_text);
    H5Fclose(file), expect("a4", "attribute build of the file has a wrong type");
    file = edit("a5"), put_attribute(file, "layout", variable, 0, &pointer);
    H5Fclose(file), expect("a5", "attribute layout of the file has a wrong type");
    file = edit("a6"), put_attribute(file, "format", H5T_STD_I64LE, 0, &future);
    H5Fclose(file), fails("a6", PT_IO, "format 99");
    file = edit("a7"), H5Adelete(file, "loss");
    H5Fclose(file), expect("a7", "lacks the attribute loss");
    file = edit("a8"), put_attribute(file, "digest", H5T_STD_U64LE, 0, &future);
    H5Fclose(file), expect("a8", "is not the sum");
    file = edit("a9");
    hid_t dataset = H5Dopen2(file, "/model/w", H5P_DEFAULT);
    H5Adelete(dataset, "digest");
    H5Dclose(dataset), H5Fclose(file), expect("a9", "lacks the attribute digest");
    H5Tclose(string), H5Tclose(variable);
}

/* A dataset of the name; `layout` and `type` may be strange. No storage unless
 * asked. */
static void put_dataset(hid_t file, const char *name, hid_t type, int ndim,
                        const hsize_t *shape, hid_t list)
{
    uint64_t digest = 0;
    hid_t space =
        ndim > 0 ? H5Screate_simple(ndim, shape, NULL) : H5Screate(H5S_SCALAR);
    hid_t links = H5Pcreate(H5P_LINK_CREATE);

    H5Pset_create_intermediate_group(links, 1);
    hid_t id = H5Dcreate2(file, name, type, space, links, list, H5P_DEFAULT);
    put_attribute(id, "digest", H5T_STD_U64LE, 0, &digest);
    H5Dclose(id);
    H5Pclose(links);
    H5Sclose(space);
}

static void test_datasets(void)
{
    static const hsize_t huge[1] = {1ull << 60}, wide[3] = {1ull << 40, 1ull << 40, 2},
                         small[4] = {2, 2, 2, 2}, none[1] = {0};
    hid_t chunked = H5Pcreate(H5P_DATASET_CREATE),
          outside = H5Pcreate(H5P_DATASET_CREATE);
    hid_t file;

    H5Pset_chunk(chunked, 2, small);
    H5Pset_external(outside, "/etc/passwd", 0, 64);
    file = edit("d1"),
    put_dataset(file, "/model/x", H5T_IEEE_F32LE, 1, huge, H5P_DEFAULT);
    H5Fclose(file), expect("d1", "model/x");
    file = edit("d2"),
    put_dataset(file, "/model/x", H5T_IEEE_F32LE, 3, wide, H5P_DEFAULT);
    H5Fclose(file), expect("d2", "/model/x");
    file = edit("d3"),
    put_dataset(file, "/model/x", H5T_IEEE_F32LE, 4, small, H5P_DEFAULT);
    H5Fclose(file), expect("d3", "does not have 1 to 3 dimensions");
    file = edit("d4"),
    put_dataset(file, "/model/x", H5T_IEEE_F32LE, 0, NULL, H5P_DEFAULT);
    H5Fclose(file), expect("d4", "does not have 1 to 3 dimensions");
    file = edit("d5"),
    put_dataset(file, "/model/x", H5T_STD_I32LE, 1, small, H5P_DEFAULT);
    H5Fclose(file), expect("d5", "none of fp64, fp32 and bf16");
    file = edit("d6"), put_dataset(file, "/model/x", H5T_IEEE_F32LE, 2, small, chunked);
    H5Fclose(file), expect("d6", "not stored in one piece");
    file = edit("d7"), put_dataset(file, "/model/x", H5T_IEEE_F32LE, 1, small, outside);
    H5Fclose(file), expect("d7", "not stored in one piece");
    file = edit("d8"),
    put_dataset(file, "/model/x", H5T_IEEE_F32LE, 1, none, H5P_DEFAULT);
    H5Fclose(file), expect("d8", "impossible");
    file = edit("d9"), put_dataset(file, "/x", H5T_IEEE_F32LE, 1, small, H5P_DEFAULT);
    H5Fclose(file), expect("d9", "unexpected dataset /x");
    file = edit("d10"),
    put_dataset(file, "/model/x", H5T_IEEE_F32BE, 1, small, H5P_DEFAULT);
    H5Fclose(file), expect("d10", "none of fp64, fp32 and bf16");
    H5Pclose(chunked), H5Pclose(outside);
}

static void test_links(void)
{
    static const hsize_t small[1] = {2};
    char name[512];
    bool right;
    hid_t file;

    file = edit("l1"),
    H5Lcreate_soft("/model", file, "/model/loop", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file), expect("l1", "is a link to another object");
    file = edit("l2");
    H5Lcreate_external("a1", "/model", file, "/model/other", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file), expect("l2", "is a link to another object");
    file = edit("l3");
    H5Lcreate_hard(file, "/model", file, "/model/cycle", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    pt_status_t status = try_file("l3", &right);
    tap_ok((status == PT_OK && right) || status == PT_DAMAGED,
           "a cycle of hard links ends: %s", pt_error_last()->text);
    pt_error_clear();
    file = edit("l4");
    snprintf(name, sizeof name, "/model/%0200d", 7);
    put_dataset(file, name, H5T_IEEE_F32LE, 1, small, H5P_DEFAULT);
    H5Fclose(file), expect("l4", "too long");
    file = edit("l5");
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tcommit2(file, "/model/type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(type), H5Fclose(file), expect("l5", "neither a group nor a dataset");
    file = edit("l6");
    H5Ldelete(file, "/model", H5P_DEFAULT), H5Ldelete(file, "/optimizer", H5P_DEFAULT);
    H5Fclose(file), expect("l6", "holds no tensors");
    file = edit("l7"), H5Ldelete(file, "/config", H5P_DEFAULT);
    H5Fclose(file), expect("l7", "/config is missing");
    file = edit("l8"), H5Ldelete(file, "/config", H5P_DEFAULT);
    put_dataset(file, "/config", H5T_IEEE_F32LE, 1, small, H5P_DEFAULT);
    H5Fclose(file), expect("l8", "is not one text");
}

/* HDF5 tells errno in a text only. */
static void test_refused(void)
{
    hid_t file;

    mkdir("directory", 0777);
    tap_ok(pt_h5_create_file("directory", &file) == PT_IO &&
               pt_error_last()->os_error == EISDIR,
           "what the system told HDF5 is on record: %s", pt_error_last()->text);
    pt_error_clear();
}

int main(void)
{
    pt_engine_t *engine = small_engine();
    pt_checkpoint_reader_t *reader = NULL;
    bool right;
    FILE *file;

    if (!engine)
        return 1;
    world = pt_engine_world(engine);
    tap_ok(small_save(world, "good", "[a]\nb = 1\n", 0) == PT_OK &&
               pt_checkpoint_open(world, "good", &reader) == PT_OK,
           "a good file");
    if (reader)
        original_header = *pt_checkpoint_header(reader);
    pt_checkpoint_close(reader);
    file = fopen("good", "rb");
    original_bytes = file ? fread(original, 1, MAX_BYTES, file) : 0;
    if (file)
        fclose(file);
    tap_ok(original_bytes > 0 && original_bytes < MAX_BYTES &&
               try_file("good", &right) == PT_OK && right,
           "of %zu bytes reads right", original_bytes);
    test_hyperslab();
    test_counts();
    test_unreadable();
    test_not_checkpoints();
    test_truncations();
    test_corruptions();
    test_attributes();
    test_datasets();
    test_links();
    test_refused();
    tap_ok(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0,
           "no HDF5 handle is left open");
    pt_engine_destroy(engine);
    return tap_done();
}
