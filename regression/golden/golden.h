/* SPDX-License-Identifier: Apache-2.0 */
/* golden.h — the golden files for tests in C: what is in them, by parameter
 * (README.md). */
#ifndef PT_REGRESSION_GOLDEN_H
#define PT_REGRESSION_GOLDEN_H

#include "regression/tap.h"
#include "regression/train/rig_step.h"

#include <hdf5.h>
#include <mpi.h>

enum {
    STEPS = 3,
    SEQUENCES = 4,
    LENGTH = 13,
    ROWS = SEQUENCES * LENGTH,
    NAME_SIZE = 160
};

typedef struct golden {
    hid_t file;
    pt_config_t config;
    pt_arch_t arch;
    int32_t token[STEPS][ROWS], label[STEPS][ROWS], document[STEPS][ROWS];
    uint8_t mask[STEPS][ROWS];
    bool documents;
    double losses[STEPS], norms[STEPS], *logits;
    double gradient_floor; /* RMS of all gradients */
    double bound, weight_bound;
} golden_t;

#define REQUIRE(call) PT_CHECK((call) >= 0, PT_IO, "HDF5 failed: %s", #call)

/* ---- reading ---- */

static pt_status_t read_dataset(hid_t file, const char *name, hid_t type, void *out)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    herr_t status;

    PT_CHECK(set >= 0, PT_IO, "no dataset %s", name);
    status = H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
    H5Dclose(set);
    PT_CHECK(status >= 0, PT_IO, "cannot read %s", name);
    return PT_OK;
}

static int64_t dataset_count(hid_t file, const char *name)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space;
    int64_t count;

    if (set < 0)
        return -1;
    space = H5Dget_space(set);
    count = H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
    H5Dclose(set);
    return count;
}

static pt_status_t read_doubles(hid_t file, const char *name, int64_t *count,
                                double **out)
{
    *count = dataset_count(file, name);
    PT_CHECK(*count >= 0, PT_IO, "no dataset %s", name);
    PT_TRY(PT_NEW("dataset", (size_t)*count, out));
    return read_dataset(file, name, H5T_NATIVE_DOUBLE, *out);
}

static pt_status_t read_text(hid_t file, const char *name, char *out, size_t size)
{
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT), type;
    herr_t status;

    PT_CHECK(attribute >= 0, PT_IO, "no attribute %s", name);
    type = H5Aget_type(attribute);
    PT_CHECK(H5Tget_size(type) <= size, PT_IO, "attribute %s is too long", name);
    status = H5Aread(attribute, type, out);
    H5Tclose(type);
    H5Aclose(attribute);
    PT_CHECK(status >= 0, PT_IO, "cannot read %s", name);
    return PT_OK;
}

static pt_status_t read_number(hid_t file, const char *name, double *out)
{
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    herr_t status;

    PT_CHECK(attribute >= 0, PT_IO, "no attribute %s", name);
    status = H5Aread(attribute, H5T_NATIVE_DOUBLE, out);
    H5Aclose(attribute);
    PT_CHECK(status >= 0, PT_IO, "cannot read %s", name);
    return PT_OK;
}

/* `precision` instead of the file's; NULL: that. */
static pt_status_t read_config(golden_t *golden, const char *precision)
{
    char json[8192], dtype[8], setting[64];
    char *arguments[] = {(char *)"model.config_json=golden.json", setting,
                         (char *)"train.sequence=13", (char *)"train.global_batch=4"};
    FILE *file;
    char *text;

    PT_TRY(read_text(golden->file, "config", json, sizeof json));
    PT_TRY(read_text(golden->file, "dtype", dtype, sizeof dtype));
    snprintf(setting, sizeof setting, "train.precision=%s",
             precision ? precision : dtype);
    file = fopen("golden.json", "w");
    PT_CHECK(file && fputs(json, file) >= 0 && fclose(file) == 0, PT_IO,
             "cannot write golden.json");
    PT_TRY(pt_config_gather(NULL, 4, arguments, &text));
    pt_status_t status = pt_config_parse(text, &golden->config);
    pt_free(text);
    PT_TRY(status);
    PT_TRY(read_number(golden->file, "lr", &golden->config.train.lr));
    PT_TRY(read_number(golden->file, "beta1", &golden->config.train.beta1));
    PT_TRY(read_number(golden->file, "beta2", &golden->config.train.beta2));
    PT_TRY(read_number(golden->file, "eps", &golden->config.train.eps));
    PT_TRY(
        read_number(golden->file, "weight_decay", &golden->config.train.weight_decay));
    PT_TRY(read_number(golden->file, "clip", &golden->config.train.clip));
    PT_TRY(pt_arch_from_config(&golden->config, &golden->arch));
    golden->bound = golden->arch.dtype == PT_F64 ? 1e-11 : 1e-5;
    golden->weight_bound = golden->arch.dtype == PT_F64 ? 1e-10 : 1e-5;
    return PT_OK;
}

static herr_t add_squares(hid_t group, const char *name, const H5L_info_t *info,
                          void *sums)
{
    double *values, *sum = sums;
    int64_t count;

    (void)info;
    if (read_doubles(group, name, &count, &values) != PT_OK)
        return -1;
    for (int64_t i = 0; i < count; i++)
        sum[0] += values[i] * values[i];
    sum[1] += (double)count;
    pt_free(values);
    return 0;
}

static pt_status_t read_data(golden_t *golden)
{
    int64_t tokens[STEPS][SEQUENCES][LENGTH + 1], count;
    double sums[2] = {0, 0};
    hid_t grads;

    PT_TRY(read_dataset(golden->file, "tokens", H5T_NATIVE_INT64, tokens));
    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < ROWS; i++) {
            golden->token[s][i] = (int32_t)tokens[s][i / LENGTH][i % LENGTH];
            golden->label[s][i] = (int32_t)tokens[s][i / LENGTH][i % LENGTH + 1];
        }
    PT_TRY(read_dataset(golden->file, "mask", H5T_NATIVE_UINT8, golden->mask));
    golden->documents = H5Lexists(golden->file, "documents", H5P_DEFAULT) > 0;
    if (golden->documents)
        PT_TRY(read_dataset(golden->file, "documents", H5T_NATIVE_INT32,
                            golden->document));
    PT_TRY(read_dataset(golden->file, "losses", H5T_NATIVE_DOUBLE, golden->losses));
    PT_TRY(read_dataset(golden->file, "grad_norms", H5T_NATIVE_DOUBLE, golden->norms));
    PT_TRY(read_doubles(golden->file, "logits", &count, &golden->logits));
    PT_CHECK(count == ROWS * golden->arch.vocab, PT_IO, "logits of another size");
    grads = H5Gopen2(golden->file, "grads", H5P_DEFAULT);
    REQUIRE(grads);
    herr_t status =
        H5Literate(grads, H5_INDEX_NAME, H5_ITER_INC, NULL, add_squares, sums);
    H5Gclose(grads);
    REQUIRE(status);
    golden->gradient_floor = sqrt(sums[0] / sums[1]);
    return PT_OK;
}

/* ---- tensors by their Hugging Face names ---- */

/* Element (row, col) of a part inside the file's tensor. */
static int64_t place_in_file(const pt_hf_name_t *hf, const pt_part_t *part, int64_t row,
                             int64_t col)
{
    int64_t cols = part->ndim == 2 ? part->shape[1] : 1;

    row += hf->first_row;
    return hf->transposed ? col * hf->rows + row : row * cols + col;
}

typedef struct part_place {
    const pt_part_t *part;
    pt_hf_name_t hf;
    int64_t cols;
} part_place_t;

static pt_status_t locate(const rig_t *rig, int param, int part, part_place_t *out)
{
    const pt_param_t *p = &rig->session.table.params[param];

    out->part = &p->part[part];
    out->cols = p->ndim == 2 ? p->shape[1] : 1;
    PT_CHECK(pt_arch_hf_name(&rig->arch, p, part, &out->hf), PT_INTERNAL,
             "%s has no Hugging Face name", out->part->name);
    return PT_OK;
}

/* Copies between a whole parameter (dense, parts stacked) and the file's tensors. */
static pt_status_t read_param(const golden_t *golden, const rig_t *rig,
                              const char *group, int param, double *out)
{
    const pt_param_t *p = &rig->session.table.params[param];

    for (int part = 0; part < p->parts; part++) {
        part_place_t at;
        char name[NAME_SIZE];
        int64_t count;
        double *values;

        PT_TRY(locate(rig, param, part, &at));
        snprintf(name, sizeof name, "%s/%s", group, at.hf.name);
        PT_TRY(read_doubles(golden->file, name, &count, &values));
        for (int64_t r = 0; r < at.part->shape[0]; r++)
            for (int64_t c = 0; c < at.cols; c++)
                out[(at.part->first_row + r) * at.cols + c] =
                    values[place_in_file(&at.hf, at.part, r, c)];
        pt_free(values);
    }
    return PT_OK;
}

/* Initial weights, in full precision where there are masters; moments zero. */
static pt_status_t load_weights(const golden_t *golden, rig_t *rig)
{
    PT_TRY(pt_optim_reset(rig->session.optim, rig->world->machine.stream));
    for (int p = 0; p < rig->session.table.count; p++) {
        pt_tensor_t x = rig_master(rig, p);
        double values[pt_tensor_count(&x)];

        PT_TRY(read_param(golden, rig, "weights", p, values));
        PT_TRY(rig_write(rig, x, values));
    }
    return pt_optim_loaded(rig->session.optim, rig->world->machine.stream);
}

/* A step's data, as a rig takes them. */
static rig_data_t data_of(const golden_t *golden, int step)
{
    return (rig_data_t){.token = golden->token[step],
                        .label = golden->label[step],
                        .document = golden->documents ? golden->document[step] : NULL,
                        .mask = golden->mask[step],
                        .step = step};
}

/* Of all rows of the step that is loaded, a micro-batch at a time. */
static pt_status_t read_logits(const golden_t *golden, rig_t *rig, double *out)
{
    pt_device_t *device = rig->world->machine.device;
    pt_dtype_t dtype = pt_dtype_accumulator(rig->arch.dtype);
    int64_t rows = rig->micro_batch * LENGTH, vocab = rig->arch.vocab;
    int64_t bytes = rows * vocab * (int64_t)pt_dtype_size(dtype);
    void *memory;

    PT_TRY(pt_device_alloc(device, PT_MEMORY_DEVICE, "logits", bytes, &memory));
    for (int64_t first = 0; first < SEQUENCES; first += rig->micro_batch) {
        pt_batch_view_t view =
            rig_view(rig, golden->documents, first, rig->micro_batch);
        pt_tensor_t logits = pt_tensor_2d(memory, dtype, PT_MEMORY_DEVICE, rows, vocab);

        view.training = false;
        PT_TRY(pt_model_logits(rig->session.model, &view, 0, logits,
                               rig->world->machine.stream));
        PT_TRY(rig_read(rig, logits, out + first * LENGTH * vocab));
    }
    pt_device_free(device, PT_MEMORY_DEVICE, memory, bytes);
    return PT_OK;
}

/* Opened read-only; < 0: cannot be. */
static hid_t open_golden(const char *name)
{
    const char *source = getenv("PENTA_SRCDIR");
    char path[4096];

    snprintf(path, sizeof path, "%s/regression/golden/%s.h5", source ? source : ".",
             name);
    return H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

#endif
