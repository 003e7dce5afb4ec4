/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cmd/inspect.h"

#include "io/elements.h"
#include "penta/base/alloc.h"
#include "penta/io/rundir.h"
#include "src/cmd/private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
    bool digest, verify, tensors, config, diff, json;
    const char *file, *other;
} request_t;

const char *pt_inspect_name(const pt_checkpoint_tensor_t *tensor, char buffer[128])
{
    snprintf(buffer, 128, "%s/%s", tensor->group, tensor->name);
    return buffer;
}

json_t *pt_inspect_hex(uint64_t digest)
{
    char text[32];

    snprintf(text, sizeof text, "%016llx", (unsigned long long)digest);
    return json_string(text);
}

json_t *pt_inspect_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* ---- for people ------------------------------------------------------------------ */

/* Prints text of a file from an unknown source, without control characters for the
 * terminal. */
static void inspect_print_text(const char *foreign)
{
    char *text = NULL;

    if (pt_strdup("text to show", foreign, &text) != PT_OK)
        return;
    pt_text_printable(text);
    printf("%s", text);
    pt_free(text);
}

static void inspect_print_scalar(const json_t *value)
{
    char text[32];

    switch (json_typeof(value)) {
    case JSON_STRING: inspect_print_text(json_string_value(value)); break;
    case JSON_INTEGER: printf("%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL:
        snprintf(text, sizeof text, "%.9g", json_real_value(value));
        printf("%s", text);
        break;
    case JSON_TRUE: printf("yes"); break;
    case JSON_FALSE: printf("no"); break;
    default: printf("not finite");
    }
}

static void inspect_print_row(json_t *row)
{
    const char *key;
    json_t *value;
    bool first = true;

    if (!json_is_object(row)) {
        printf("  ");
        inspect_print_scalar(row);
        printf("\n");
        return;
    }
    json_object_foreach(row, key, value)
    {
        printf(first ? "  %s" : "  %s ", first ? "" : key);
        inspect_print_scalar(value);
        first = false;
    }
    printf("\n");
}

static void inspect_print_object(json_t *object)
{
    const char *key;
    json_t *value, *row;
    size_t i;

    json_object_foreach(object, key, value)
    {
        if (!json_is_array(value)) {
            printf("%-14s ", key);
            inspect_print_scalar(value);
            printf("\n");
            continue;
        }
        printf("%s: %zu\n", key, json_array_size(value));
        json_array_foreach(value, i, row)
        {
            inspect_print_row(row);
        }
    }
}

/* ---- what metadata tell ---------------------------------------------------------- */

static void inspect_add_text(json_t *out, const char *key, const char *text)
{
    json_object_set_new(out, key, pt_json_text(text));
}

static void inspect_summarize(const pt_checkpoint_reader_t *reader, json_t *out)
{
    const pt_checkpoint_header_t *header = pt_checkpoint_header(reader);
    int64_t parameters = 0, bytes = 0;

    for (int i = 0; i < pt_checkpoint_tensors(reader); i++) {
        const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, i);
        int64_t n = pt_checkpoint_elements(tensor);
        bytes += n * (int64_t)pt_dtype_size(tensor->dtype);
        if (pt_checkpoint_is_weight(tensor))
            parameters += n;
    }
    json_object_set_new(out, "step", json_integer(header->step));
    json_object_set_new(out, "decay_steps", json_integer(header->decay_steps));
    json_object_set_new(out, "samples", json_integer(header->samples));
    json_object_set_new(out, "tokens", json_integer(header->tokens));
    json_object_set_new(out, "updates", json_integer(header->adam_t));
    json_object_set_new(out, "loss", pt_inspect_number(header->loss));
    json_object_set_new(out, "loss_scale", pt_inspect_number(header->loss_scale));
    inspect_add_text(out, "precision", header->precision);
    json_object_set_new(out, "tensors", json_integer(pt_checkpoint_tensors(reader)));
    json_object_set_new(out, "parameters", json_integer(parameters));
    json_object_set_new(out, "tensor_bytes", json_integer(bytes));
    json_object_set_new(out, "digest", pt_inspect_hex(header->digest));
    inspect_add_text(out, "layout", header->layout);
    inspect_add_text(out, "build", header->build);
}

typedef struct named {
    char name[128];
    int index;
} named_t;

/* Natural order: layers.2 before layers.10. */
static int inspect_by_name(const void *a, const void *b)
{
    return strverscmp(((const named_t *)a)->name, ((const named_t *)b)->name);
}

static json_t *inspect_tensor_row(const pt_checkpoint_reader_t *reader,
                                  const named_t *named)
{
    const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, named->index);
    json_t *row = json_object();
    char shape[96];
    pt_text_t text = pt_text_init(shape, sizeof shape);

    for (int d = 0; d < tensor->ndim; d++)
        pt_text_add(&text, "%s%lld", d ? "x" : "", (long long)tensor->shape[d]);
    inspect_add_text(row, "name", named->name);
    json_object_set_new(row, "type", json_string(pt_dtype_name(tensor->dtype)));
    json_object_set_new(row, "shape", json_string(shape));
    json_object_set_new(
        row, "digest",
        pt_inspect_hex(pt_checkpoint_tensor_digest(reader, named->index)));
    return row;
}

static pt_status_t inspect_list_tensors(const pt_checkpoint_reader_t *reader,
                                        json_t *out)
{
    int count = pt_checkpoint_tensors(reader);
    json_t *rows = json_array();
    named_t *names;

    json_object_set_new(out, "tensors", rows);
    PT_TRY(PT_NEW("names", (size_t)count, &names));
    for (int i = 0; i < count; i++) {
        names[i].index = i;
        pt_inspect_name(pt_checkpoint_tensor(reader, i), names[i].name);
    }
    qsort(names, (size_t)count, sizeof *names, inspect_by_name);
    for (int i = 0; i < count; i++)
        json_array_append_new(rows, inspect_tensor_row(reader, &names[i]));
    pt_free(names);
    return PT_OK;
}

/* ---- the command ----------------------------------------------------------------- */

static pt_status_t inspect_parse(int argc, char **argv, request_t *out)
{
    request_t r = {0};
    int verbs;

    r.json = pt_cmd_take_flag(&argc, argv, "--json");
    r.digest = pt_cmd_take_flag(&argc, argv, "--digest");
    r.verify = pt_cmd_take_flag(&argc, argv, "--verify");
    r.tensors = pt_cmd_take_flag(&argc, argv, "--tensors");
    r.config = pt_cmd_take_flag(&argc, argv, "--config");
    r.diff = pt_cmd_take_flag(&argc, argv, "--diff");
    verbs = r.digest + r.verify + r.tensors + r.config + r.diff;
    for (int i = 1; i < argc; i++)
        PT_CHECK_COMMON(argv[i][0] != '-', PT_CONFIG,
                        "inspect: unknown flag %s; see penta inspect --help", argv[i]);
    PT_CHECK_COMMON(argc == (r.diff ? 3 : 2), PT_CONFIG,
                    "inspect: %s; see penta inspect --help",
                    r.diff ? "--diff needs two files" : "needs one file");
    PT_CHECK_COMMON(
        verbs <= 1, PT_CONFIG,
        "inspect: one of --digest, --verify, --tensors, --config, --diff at a "
        "time");
    r.file = argv[1];
    r.other = r.diff ? argv[2] : NULL;
    *out = r;
    return PT_OK;
}

static pt_status_t inspect_diff(pt_comm_t *world, const request_t *request,
                                pt_checkpoint_reader_t *reader, json_t *out)
{
    pt_checkpoint_reader_t *other;

    PT_TRY(pt_checkpoint_open(world, request->other, &other));
    pt_status_t status = pt_inspect_diff(reader, other, out);
    pt_checkpoint_close(other);
    return status;
}

static void inspect_print_config(const pt_checkpoint_reader_t *reader,
                                 const request_t *request, json_t *out)
{
    json_t *plain = json_string(pt_checkpoint_config(reader));
    bool is_utf8 = plain != NULL;

    json_decref(plain);
    inspect_add_text(out, "config", pt_checkpoint_config(reader));
    inspect_add_text(out, "hosts", pt_checkpoint_hosts(reader));
    if (request->json)
        return;
    if (is_utf8 || isatty(STDOUT_FILENO)) {
        inspect_print_text(pt_checkpoint_config(reader));
        return;
    }
    /* In a file, names keep bytes that are not UTF-8. */
    for (const char *c = pt_checkpoint_config(reader); *c != '\0'; c++) {
        bool is_control = (unsigned char)*c < ' ' && *c != '\n' && *c != '\t';
        putchar(is_control || *c == 0x7f ? '?' : *c);
    }
}

static pt_status_t inspect(pt_comm_t *world, const request_t *request,
                           pt_checkpoint_reader_t *reader)
{
    json_t *out = json_object();
    pt_status_t status = PT_OK;

    inspect_add_text(out, "file", request->file);
    if (request->verify)
        status = pt_inspect_verify(reader, out);
    else if (request->diff)
        status = inspect_diff(world, request, reader, out);
    else if (request->tensors)
        status = inspect_list_tensors(reader, out);
    else if (request->config)
        inspect_print_config(reader, request, out);
    else
        inspect_summarize(reader, out);
    if (request->json) {
        json_dumpf(out, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        printf("\n");
    } else if (request->digest) {
        printf("%016llx\n", (unsigned long long)pt_checkpoint_header(reader)->digest);
    } else if (!request->config) {
        inspect_print_object(out);
    }
    json_decref(out);
    return status;
}

static pt_status_t inspect_run(int argc, char **argv, pt_transport_t *transport)
{
    pt_checkpoint_reader_t *reader;
    pt_engine_t *engine;
    request_t request = {0};
    pt_status_t status;

    PT_TRY(inspect_parse(argc, argv, &request));
    PT_TRY(pt_engine_create(transport, &(pt_engine_options_t){.device = NULL}, &engine));
    pt_comm_t *world = pt_engine_world(engine);
    PT_TRY_GOTO(destroy, pt_checkpoint_open(world, request.file, &reader));
    status = inspect(world, &request, reader);
    pt_checkpoint_close(reader);
destroy:
    pt_engine_destroy(engine);
    return status;
}

const pt_command_t pt_command_inspect = {
    .name = "inspect",
    .arguments = "FILE [--digest|--verify|--tensors|--config|--diff OTHER] [--json]",
    .summary = "Shows, checks and compares checkpoints",
    .details =
        "  (no flag)     step, tokens, loss, parameters, digest, provenance\n"
        "  --digest      the digest of the weights alone, as 16 hexadecimal digits\n"
        "  --verify      reads everything: compares digests, counts NaN and "
        "infinities;\n"
        "                exit code 4 if an element differs from what was written\n"
        "  --tensors     name, type, shape and digest of each tensor\n"
        "  --config      the configuration of the training, as a file for penta "
        "train\n"
        "  --diff OTHER  compares tensors bit by bit (largest difference, also in "
        "units in\n"
        "                the last place), then header and configuration; exit code 0 "
        "if all\n"
        "                tensors are equal, 5 if not\n"
        "  --json        the same as one JSON object",
    .sections = "",
    .parallel = false,
    .run = inspect_run,
};
