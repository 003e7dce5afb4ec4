/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter table against published parameter counts, and the Hugging Face names
 * against the golden files. */
#include "penta/base/alloc.h"
#include "penta/model/arch.h"
#include "penta/base/rng.h"
#include "regression/tap.h"

#include <hdf5.h>
#include <math.h>
#include <string.h>

static pt_config_t config;

static pt_status_t create_table(const pt_arch_t *arch, pt_param_table_t *out)
{
    pt_cut_t cut;

    *out = (pt_param_table_t){0};
    PT_TRY(pt_cut_create(2, 1, 1, &cut));
    cut.first_layer[1] = (int)arch->layers;
    return pt_param_table_create(arch, cut, out);
}

static const char *in_source(const char *name, char *path, size_t size)
{
    const char *root = getenv("PENTA_SRCDIR");

    snprintf(path, size, "%s/regression/%s", root ? root : ".", name);
    return path;
}

static void set_int(const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    pt_config_set(&config, key, text, "test");
}

/* ---- Counts ---- */

/* Fields of a CSV line, cut in place. */
static int split(char *line, char *field[16])
{
    int count = 0;

    for (char *at = line; at && count < 16;) {
        field[count++] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    return count;
}

static void check_row(char **field)
{
    bool is_gpt2 = strcmp(field[1], "gpt2") == 0;
    int64_t count = 0, expected = atoll(field[11]);
    pt_param_table_t table;
    pt_arch_t arch;

    pt_config_defaults(&config);
    pt_config_set(&config, "model.preset", is_gpt2 ? "gpt2-124m" : "llama3-8b", "test");
    set_int("model.hidden", atoll(field[2]));
    set_int("model.layers", atoll(field[3]));
    set_int("model.heads", atoll(field[4]));
    set_int("model.kv_heads", atoll(field[5]));
    set_int("model.head_dim", atoll(field[6]));
    set_int("model.ffn", atoll(field[7]));
    set_int("model.vocab", atoll(field[8]));
    pt_config_set(&config, "model.tied", strcmp(field[9], "true") == 0 ? "yes" : "no",
                  "test");
    pt_config_set(&config, "model.qk_norm", strstr(field[10], "qk_norm") ? "yes" : "no",
                  "test");
    tap_ok(pt_config_finish(&config) == PT_OK &&
               pt_arch_from_config(&config, &arch) == PT_OK &&
               pt_arch_parameters(&arch, &count) && count == expected,
           "%s has %lld parameters, published %s", field[0], (long long)count,
           field[11]);
    tap_ok(create_table(&arch, &table) == PT_OK &&
               pt_param_table_elements(&table) == expected,
           "%s: so says its table", field[0]);
    pt_param_table_destroy(&table);
}

/* Dense rows only: gpt2, llama, qwen3. */
static void check_published(void)
{
    char path[1024], line[512], *field[16];
    FILE *file = fopen(in_source("anchors/model_sizes.csv", path, sizeof path), "r");
    int rows = 0;

    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || split(line, field) != 12)
            continue;
        if (strcmp(field[1], "gpt2") && strcmp(field[1], "llama") &&
            strcmp(field[1], "qwen3"))
            continue;
        check_row(field);
        rows++;
    }
    if (file)
        fclose(file);
    tap_ok(rows == 5, "five published models are compared");
}

static void check_presets(void)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } presets[] = {
        {"gpt2-124m", 124439808},
        {"llama3-8b", 8030261248},
        {"llama3-70b", 70553706496},
        {"llama3-405b", 405853388800},
        {"qwen3-8b", 8190735360},
        /* 8·(96·192 + 96·96 + 3·96·256 + 2·96) + 2·256·96 + 96 */
        {"tiny", 8 * (96 * 192 + 96 * 96 + 3 * 96 * 256 + 2 * 96) + 2 * 256 * 96 + 96},
    };

    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        pt_arch_t arch;
        int64_t count = 0;

        pt_config_defaults(&config);
        pt_config_set(&config, "model.preset", presets[i].name, "test");
        tap_ok(pt_config_finish(&config) == PT_OK &&
                   pt_arch_from_config(&config, &arch) == PT_OK &&
                   pt_arch_parameters(&arch, &count) && count == presets[i].parameters,
               "preset %s has %lld parameters", presets[i].name, (long long)count);
    }
}

static void check_overflow(void)
{
    pt_param_table_t table;
    pt_arch_t arch;
    int64_t count;

    pt_config_defaults(&config);
    pt_config_finish(&config);
    pt_arch_from_config(&config, &arch);
    arch.layers = INT64_C(1) << 40;
    tap_ok(pt_arch_parameters(&arch, &count) &&
               count == (INT64_C(1) << 40) * 101568 + 2 * 256 * 96 + 96,
           "2^40 tiny layers are counted: %lld", (long long)count);
    tap_ok(create_table(&arch, &table) == PT_CONFIG &&
               pt_error_last()->scope == PT_SCOPE_COMMON && !table.params,
           "but get no table: %s", pt_error_last()->text);
    pt_error_clear();
    arch.hidden = INT64_C(1) << 20;
    arch.ffn = INT64_C(1) << 24;
    tap_ok(!pt_arch_parameters(&arch, &count), "wide ones overflow");
    arch.layers = 1;
    arch.heads = INT64_C(1) << 40;
    arch.head_dim = INT64_C(1) << 40;
    tap_ok(!pt_arch_parameters(&arch, &count), "heads times width overflows");
    pt_config_set(&config, "model.layers", "100000", "test");
    pt_config_set(&config, "model.heads", "65536", "test");
    pt_config_set(&config, "model.kv_heads", "65536", "test");
    pt_config_set(&config, "model.head_dim", "65536", "test");
    pt_config_set(&config, "model.hidden", "1048576", "test");
    tap_ok(pt_arch_from_config(&config, &arch) == PT_CONFIG,
           "the largest of every key is refused: %s", pt_error_last()->text);
    pt_error_clear();
}

/* ---- Rows ---- */

static int bad_parts(const pt_param_table_t *table)
{
    int bad = 0;

    for (int i = 0; i < table->count; i++) {
        const pt_param_t *param = &table->params[i];
        int64_t rows = 0;

        bad += pt_param_find(table, param->role, param->layer) != i;
        bad += i > 0 && table->params[i - 1].unit > param->unit;
        bad += param->weight_decay != (param->ndim == 2);
        for (int j = 0; j < param->parts; j++) {
            bad += param->part[j].first_row != rows ||
                   param->part[j].shape[1] != param->shape[1];
            bad += param->part[j].id != pt_name_id(param->part[j].name);
            rows += param->part[j].shape[0];
        }
        bad += rows != param->shape[0];
    }
    return bad;
}

static void check_tiny(void)
{
    pt_param_table_t table;
    const pt_param_t *qkv, *out, *in;
    pt_arch_t arch;
    int last;

    pt_config_defaults(&config);
    pt_config_finish(&config);
    pt_arch_from_config(&config, &arch);
    create_table(&arch, &table);
    tap_ok(table.units == 10 && table.count == 1 + 8 * 6 + 2,
           "tiny: %d units, %d parameters", table.units, table.count);
    tap_ok(bad_parts(&table) == 0,
           "parts tile their parameters, find finds, ids are of names");
    qkv = &table.params[pt_param_find(&table, PT_ROLE_QKV, 3)];
    tap_ok(qkv->shape[0] == 192 && qkv->part[1].first_row == 96 &&
               qkv->part[2].first_row == 144 &&
               strcmp(qkv->part[2].name, "layers.3.attention.v.weight") == 0 &&
               qkv->unit == 4,
           "q|k|v of layer 3");
    tap_ok(qkv->shard.kind == PT_SHARD_BLOCKED && qkv->shard.dim == 0 &&
               qkv->shard.granularity == 12,
           "q|k|v is cut between heads");
    out = &table.params[pt_param_find(&table, PT_ROLE_FFN_OUT, 0)];
    tap_ok(out->shard.kind == PT_SHARD_PLAIN && out->shard.dim == 1 &&
               fabs(out->init_std - 0.02 / 4) < 1e-18 && qkv->init_std == 0.02,
           "residual outputs begin at 0.02/sqrt(2·8)");
    in = &table.params[pt_param_find(&table, PT_ROLE_FFN_IN, 0)];
    tap_ok(in->parts == 2 && strcmp(in->part[0].name, "layers.0.ffn.gate.weight") == 0,
           "gate stands before up");
    last = table.count - 1;
    tap_ok(strcmp(table.params[last].part[0].name, "head.weight") == 0 &&
               pt_param_find(&table, PT_ROLE_POSITION_EMBEDDING, -1) == -1 &&
               pt_param_find(&table, PT_ROLE_QKV, 8) == -1 &&
               pt_param_find(&table, PT_ROLE_QKV, -1) == -1,
           "what is not there is not found");
    /* 6·(8·(96·192 + 96·96 + 3·96·256) + 256·96) + 12·8·96·(1+2+3+4)/4 */
    tap_ok(fabs(pt_arch_flops_per_token(&arch, 4) -
                (6.0 * (8 * 101376 + 24576) + 12.0 * 8 * 96 * 2.5)) < 1e-6,
           "FLOPs of a token");
    pt_param_table_destroy(&table);
}

/* ---- Golden names ---- */

static void shape_of(hid_t file, const char *name, int *ndim, hsize_t shape[2])
{
    char path[160];
    hid_t data, space;

    *ndim = -1;
    snprintf(path, sizeof path, "/weights/%s", name);
    if (H5Lexists(file, path, H5P_DEFAULT) <= 0)
        return;
    data = H5Dopen2(file, path, H5P_DEFAULT);
    space = H5Dget_space(data);
    *ndim = H5Sget_simple_extent_ndims(space);
    if (*ndim <= 2)
        H5Sget_simple_extent_dims(space, shape, NULL);
    H5Sclose(space);
    H5Dclose(data);
}

/* Every part has its tensor of the right shape, and the parts cover all tensors. */
static void check_names(const char *label, hid_t file, const pt_arch_t *arch)
{
    pt_param_table_t table;
    int64_t covered = 0, stored = 0;
    int bad = 0;
    H5G_info_t info;

    create_table(arch, &table);
    for (int i = 0; i < table.count; i++)
        for (int j = 0; j < table.params[i].parts; j++) {
            const pt_part_t *part = &table.params[i].part[j];
            hsize_t shape[2] = {1, 1};
            pt_hf_name_t name;
            int ndim, row;

            if (!pt_arch_hf_name(arch, &table.params[i], j, &name)) {
                bad++;
                continue;
            }
            shape_of(file, name.name, &ndim, shape);
            row = name.transposed ? 1 : 0;
            bad += ndim != part->ndim || (int64_t)shape[row] != name.rows;
            bad += part->ndim == 2 && (int64_t)shape[1 - row] != part->shape[1];
            bad += name.first_row + part->shape[0] > name.rows;
            covered += name.first_row == 0;
        }
    {
        hid_t group = H5Gopen2(file, "/weights", H5P_DEFAULT);

        H5Gget_info(group, &info);
        H5Gclose(group);
    }
    stored = (int64_t)info.nlinks;
    tap_ok(bad == 0 && covered == stored,
           "%s: %d parameters have their tensors (%lld of %lld)", label, table.count,
           (long long)covered, (long long)stored);
    pt_param_table_destroy(&table);
}

static void check_golden(const char *name)
{
    static char json[4096];
    char path[1024], label[64], *gathered = NULL;
    char *args[] = {"model.config_json=golden.json", "train.sequence=13"};
    hid_t file, attribute, type;
    pt_arch_t arch;
    FILE *out;

    snprintf(label, sizeof label, "golden/%s.h5", name);
    file = H5Fopen(in_source(label, path, sizeof path), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (!tap_ok(file >= 0, "%s opens", label))
        return;
    memset(json, 0, sizeof json);
    attribute = H5Aopen(file, "config", H5P_DEFAULT);
    type = H5Aget_type(attribute);
    if (H5Tget_size(type) < sizeof json)
        H5Aread(attribute, type, json);
    H5Tclose(type);
    H5Aclose(attribute);
    out = fopen("golden.json", "w");
    fputs(json, out);
    fclose(out);
    pt_error_clear();
    if (tap_ok(pt_config_gather(NULL, 2, args, &gathered) == PT_OK &&
                   pt_config_parse(gathered, &config) == PT_OK &&
                   pt_arch_from_config(&config, &arch) == PT_OK,
               "%s: its config.json is taken: %s", label, pt_error_last()->text))
        check_names(label, file, &arch);
    pt_free(gathered);
    H5Fclose(file);
}

int main(void)
{
    static const char *const golden[] = {
        "gpt2-fp64",       "gpt2-fp32",  "llama-fp64", "llama-docs-fp64", "llama-fp32",
        "llama-gqa2-fp64", "qwen2-fp64", "qwen3-fp64", "qwen3-fp32"};

    check_published();
    check_presets();
    check_overflow();
    check_tiny();
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        check_golden(golden[i]);
    return tap_done();
}
