/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/state/state.h"
#include "penta/base/text.h"
#include "src/cmd/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Inputs of the model, in addition to weights. */
typedef enum input {
    INPUT_TOKEN,
    INPUT_PLACE,
    INPUT_SAMPLE,
    INPUT_MASK,
    INPUTS
} input_t;

static const struct {
    const char *name, *staging;
    pt_dtype_t dtype;
} inputs[INPUTS] = {
    {"tokens", "staged tokens", PT_I32},
    {"places", "staged places", PT_I32},
    {"samples", "staged samples", PT_I64},
    {"mask", "staged mask", PT_U8},
};

struct pt_generator {
    char *path;
    pt_config_t *archived; /* configuration of the checkpoint */
    pt_checkpoint_header_t header;
    int64_t window, texts, rows; /* rows: most in a pass */
    int64_t *length;             /* [texts] tokens read so far */
    int64_t *slot, *first;       /* [texts] texts of a pass */
    pt_machine_t machine;
    pt_session_t session;
    pt_state_t state;
    pt_tensor_t input[INPUTS], staged[INPUTS]; /* on the device, on the host: [rows] */
    pt_tensor_t logits, host_logits;           /* [texts, vocab] */
};

/* ---- set-up ---------------------------------------------------------------------- */

static pt_status_t generator_adopt(pt_generator_t *g,
                                   const pt_checkpoint_reader_t *reader, pt_arch_t *arch)
{
    PT_TRY(PT_NEW("configuration", 1, &g->archived));
    char name[PT_CONFIG_TEXT + 16];
    snprintf(name, sizeof name, "%s: /config", g->path);
    PT_TRY(pt_config_parse_named(name, pt_checkpoint_config(reader), g->archived));
    g->header = *pt_checkpoint_header(reader);
    g->window = g->archived->train.sequence;
    PT_CHECK(g->archived->data.format == PT_FORMAT_TEXT, PT_CONFIG,
             "%s: its model was trained on files of tokens (data.format), but sampling "
             "reads and writes text, one token per byte",
             g->path);
    g->rows = g->texts > g->window ? g->texts : g->window;
    PT_TRY(pt_arch_from_config(g->archived, arch));
    PT_CHECK(arch->vocab >= PT_BYTES, PT_CONFIG,
             "%s: its model has a vocabulary of %lld tokens, but sampling needs one "
             "token per byte, at least %d",
             g->path, (long long)arch->vocab, PT_BYTES);
    return PT_OK;
}

/* Memory of a pass in addition to the session: pt_session_layout_fn. */
static pt_status_t generator_layout(void *self, pt_arena_t arena[PT_CLASS_COUNT])
{
    pt_generator_t *g = self;
    const pt_session_t *s = &g->session;
    int64_t row[2] = {g->texts, s->arch.vocab};
    pt_dtype_t full = pt_dtype_accumulator(s->arch.dtype);

    for (int i = 0; i < INPUTS; i++) {
        PT_TRY(pt_arena_tensor(&arena[PT_CLASS_BATCH], inputs[i].name, inputs[i].dtype,
                               1, &g->rows, &g->input[i]));
        PT_TRY(pt_arena_tensor(&arena[PT_CLASS_STAGING], inputs[i].staging,
                               inputs[i].dtype, 1, &g->rows, &g->staged[i]));
    }
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_ACTIVATIONS], "logits", full, 2, row,
                           &g->logits));
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_STAGING], "staged logits", full, 2, row,
                           &g->host_logits));
    return pt_state_layout(&g->state, arena);
}

static pt_status_t generator_make_session(pt_generator_t *g, const pt_arch_t *arch)
{
    pt_session_options_t options = {
        .arch = arch,
        .units = {.in_flight = 1, .grad_dtype = arch->dtype, .wire_dtype = arch->dtype},
        .model = {.micro_batch = (g->rows + g->window - 1) / g->window,
                  .sequence = g->window,
                  .cache_sequences = g->texts,
                  .cache_length = g->window},
        .own = generator_layout,
        .self = g,
    };

    g->state.session = &g->session;
    PT_TRY(pt_session_create(&g->machine, &options, &g->session));
    return pt_session_count(&g->session);
}

/* Called before memory is placed: later the kernel would kill the process without a
 * message. */
static pt_status_t generator_check_memory(const pt_generator_t *g)
{
    char wanted[32], weights[32];
    pt_memory_share_t share;
    int64_t all = 0, fixed = g->session.arena[PT_CLASS_PARAMETERS].peak;

    for (int c = 0; c < PT_CLASS_COUNT; c++)
        PT_CHECK(!__builtin_add_overflow(all, g->session.arena[c].peak, &all), PT_MEMORY,
                 "%s: its model needs more memory than 64 bits can count", g->path);
    if (pt_host_memory_fits(all, 1, g->session.device->threads, &share))
        return PT_OK;
    return PT_FAIL(PT_MEMORY, "%s: sampling needs %s of memory (weights %s), %s; %s%s",
                   g->path, pt_text_bytes(all, wanted, sizeof wanted),
                   pt_text_bytes(fixed, weights, sizeof weights), share.reason,
                   g->texts > 1 && fixed < share.bytes ? "lower sample.batch, or " : "",
                   share.remedy);
}

/* Fills samples and mask, which never change. */
static pt_status_t generator_prepare(pt_generator_t *g)
{
    for (int i = 0; i < INPUTS; i++)
        memset(g->staged[i].data, 0, (size_t)pt_tensor_bytes(&g->staged[i]));
    for (int i = 0; i < INPUTS; i++)
        PT_TRY(pt_device_copy(g->session.device, g->session.stream, &g->input[i],
                              &g->staged[i]));
    return pt_comm_wait_stream(g->session.engine, g->session.stream);
}

/* ---- life ------------------------------------------------------------------------ */

static pt_status_t generator_load(pt_generator_t *g)
{
    pt_checkpoint_reader_t *reader = NULL;
    pt_status_t status;
    pt_arch_t arch;

    PT_TRY(pt_checkpoint_open(g->machine.mesh.world, g->path, &reader));
    PT_TRY_GOTO(close_reader, generator_adopt(g, reader, &arch));
    PT_TRY_GOTO(close_reader, generator_make_session(g, &arch));
    PT_TRY_GOTO(close_reader, generator_check_memory(g));
    PT_TRY_GOTO(close_reader, pt_session_place(&g->session));
    PT_TRY_GOTO(close_reader, generator_prepare(g));
    PT_TRY_GOTO(close_reader,
                pt_state_load(&g->state, reader, g->path, PT_STATE_WEIGHT + 1));
close_reader:
    pt_checkpoint_close(reader);
    return status;
}

pt_status_t pt_generator_create(const pt_config_t *config, pt_transport_t *transport,
                                const char *path, int64_t texts, pt_generator_t **out)
{
    pt_machine_options_t machine = pt_machine_options(config, false);
    pt_generator_t *g = NULL;
    pt_status_t status;

    *out = NULL;
    PT_TRY(PT_NEW("generator", 1, &g));
    g->texts = texts;
    PT_TRY_GOTO(fail, pt_strdup("checkpoint path", path, &g->path));
    PT_TRY_GOTO(fail, PT_NEW("slots", (size_t)texts, &g->slot));
    PT_TRY_GOTO(fail, PT_NEW("places", (size_t)texts, &g->first));
    PT_TRY_GOTO(fail, PT_NEW("lengths", (size_t)texts, &g->length));
    PT_TRY_GOTO(fail, pt_machine_open(transport, &machine, &g->machine));
    PT_TRY_GOTO(fail, generator_load(g));
    *out = g;
    return PT_OK;
fail:
    pt_generator_destroy(g);
    return status;
}

void pt_generator_destroy(pt_generator_t *g)
{
    if (!g)
        return;
    pt_session_destroy(&g->session);
    pt_machine_close(&g->machine);
    pt_free(g->archived);
    pt_free(g->length);
    pt_free(g->first);
    pt_free(g->slot);
    pt_free(g->path);
    pt_free(g);
}

const char *pt_generator_path(const pt_generator_t *generator)
{
    return generator->path;
}

int64_t pt_generator_step(const pt_generator_t *generator)
{
    return generator->header.step;
}

double pt_generator_loss(const pt_generator_t *generator)
{
    return generator->header.loss;
}

int64_t pt_generator_window(const pt_generator_t *generator)
{
    return generator->window;
}

int64_t pt_generator_texts(const pt_generator_t *generator)
{
    return generator->texts;
}

/* ---- use ------------------------------------------------------------------------- */

/* Logits of row `row` of the last pass. */
static pt_status_t generator_take_logits(const pt_generator_t *g, int64_t row,
                                         double logits[PT_BYTES])
{
    pt_tensor_t host = pt_tensor_slice(g->host_logits, 0, row, 1);

    for (int token = 0; token < PT_BYTES; token++) {
        logits[token] = host.dtype == PT_F64 ? ((const double *)host.data)[token]
                                             : ((const float *)host.data)[token];
        PT_CHECK_COMMON(
            isfinite(logits[token]), PT_NUMERIC,
            "%s: the model's output for byte %d is not a finite number: its "
            "weights have diverged; take an earlier checkpoint "
            "(checkpoint.resume=FILE)",
            g->path, token);
    }
    return PT_OK;
}

static void generator_stage(pt_generator_t *g, int64_t row, uint8_t byte, int64_t place)
{
    ((int32_t *)g->staged[INPUT_TOKEN].data)[row] = byte;
    ((int32_t *)g->staged[INPUT_PLACE].data)[row] = (int32_t)place;
}

/* Runs the model on the staged rows, as `sequences` sequences of equal length, and
 * copies the logits of rows from `first` on to the host. */
static pt_status_t generator_pass(pt_generator_t *g, int64_t rows,
                                  const pt_decode_t *decode, int64_t sequences,
                                  int64_t first)
{
    pt_tensor_t cut[INPUTS], staged;
    pt_tensor_t logits = pt_tensor_slice(g->logits, 0, 0, rows - first);
    pt_tensor_t host_logits = pt_tensor_slice(g->host_logits, 0, 0, rows - first);

    for (int i = 0; i < INPUTS; i++)
        cut[i] = pt_tensor_slice(g->input[i], 0, 0, rows);
    for (int i = INPUT_TOKEN; i <= INPUT_PLACE; i++) {
        staged = pt_tensor_slice(g->staged[i], 0, 0, rows);
        PT_TRY(pt_device_copy(g->session.device, g->session.stream, &cut[i], &staged));
    }
    /* Labels only have to be valid tokens: no loss is computed. */
    pt_batch_view_t batch = {.token = cut[INPUT_TOKEN],
                             .label = cut[INPUT_TOKEN],
                             .place = cut[INPUT_PLACE],
                             .position = cut[INPUT_PLACE],
                             .sample = cut[INPUT_SAMPLE],
                             .mask = cut[INPUT_MASK],
                             .sequences = sequences};
    PT_TRY(pt_model_decode(g->session.model, &batch, decode, first, logits,
                           g->session.stream));
    PT_TRY(pt_device_copy(g->session.device, g->session.stream, &host_logits, &logits));
    return pt_comm_wait_stream(g->session.engine, g->session.stream);
}

pt_status_t pt_generator_begin(pt_generator_t *g, int64_t text, const uint8_t *bytes,
                               int64_t length, double logits[PT_BYTES])
{
    int64_t zero = 0;
    pt_decode_t decode = {&text, &zero};

    PT_REQUIRE(text >= 0 && text < g->texts && length >= 1 && length <= g->window);
    for (int64_t i = 0; i < length; i++)
        generator_stage(g, i, bytes[i], i);
    PT_TRY(generator_pass(g, length, &decode, 1, length - 1));
    g->length[text] = length;
    return generator_take_logits(g, 0, logits);
}

pt_status_t pt_generator_append(pt_generator_t *g, const pt_next_t *next, int64_t count)
{
    pt_decode_t decode = {g->slot, g->first};

    PT_REQUIRE(count >= 1 && count <= g->texts);
    for (int64_t i = 0; i < count; i++) {
        g->slot[i] = next[i].text;
        g->first[i] = g->length[next[i].text]++;
        generator_stage(g, i, next[i].byte, g->first[i]);
    }
    PT_TRY(generator_pass(g, count, &decode, count, 0));
    for (int64_t i = 0; i < count; i++)
        PT_TRY(generator_take_logits(g, i, next[i].logits));
    return PT_OK;
}
