/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "src/data/private.h"

typedef enum field {
    FIELD_TOKEN,
    FIELD_LABEL,
    FIELD_PLACE,
    FIELD_POSITION,
    FIELD_DOCUMENT,
    FIELD_SAMPLE,
    FIELD_MASK,
    FIELD_COUNT
} field_t;

static const struct {
    const char *name, *staging;
    pt_dtype_t dtype;
} fields[FIELD_COUNT] = {
    {"tokens", "staged tokens", PT_I32},
    {"labels", "staged labels", PT_I32},
    {"places", "staged places", PT_I32},
    {"positions", "staged positions", PT_I32},
    {"documents", "staged documents", PT_I32},
    {"samples", "staged samples", PT_I64},
    {"mask", "staged mask", PT_U8},
};

enum { HALVES = 2, NO_STEP = -1 };

/* Host staging of a step. There are two: one is copied to the device while the other is
 * filled. */
typedef struct half {
    pt_tensor_t field[FIELD_COUNT];
    pt_event_t *copied;
    pt_stream_t *stream; /* may still read this half; NULL: none */
    int64_t step, valid; /* step read ahead, not loaded yet, or NO_STEP */
} half_t;

struct pt_loader {
    const pt_corpus_t *corpus;
    pt_loader_options_t options;
    pt_device_t *device;
    int64_t micro_batches, rows; /* rows of a micro-batch: B·T */
    pt_tensor_t field[FIELD_COUNT];
    half_t half[HALVES];
    int last; /* half copied last */
    int64_t step;
    bool training;
};

static bool loader_has_field(const pt_loader_t *loader, int field)
{
    switch (field) {
    case FIELD_TOKEN:
    case FIELD_LABEL:
    case FIELD_MASK: return !loader->options.no_text;
    case FIELD_DOCUMENT: return loader->corpus->document_mask;
    default: return true;
    }
}

static pt_status_t loader_check_options(const pt_corpus_t *corpus,
                                        const pt_loader_options_t *options)
{
    int64_t rows, all;

    PT_REQUIRE(options->contexts == 1 && options->context == 0);
    PT_REQUIRE(options->sequence == corpus->sequence);
    PT_REQUIRE(options->replicas >= 1 && options->replica >= 0);
    PT_REQUIRE(options->replica < options->replicas);
    PT_REQUIRE(options->global_batch >= 1 && options->micro_batch >= 1);
    PT_CHECK_COMMON(
        !__builtin_mul_overflow(options->micro_batch, options->sequence, &rows) &&
            !__builtin_mul_overflow(rows, options->replicas, &all) &&
            !__builtin_add_overflow(options->global_batch, all, &all) &&
            !__builtin_mul_overflow(rows, pt_loader_micro_batches(options), &all),
        PT_CONFIG,
        "train.global_batch=%lld, train.micro_batch=%lld and train.sequence=%lld on %d "
        "replicas: more tokens in a step than 64 bits can count; lower one of them",
        (long long)options->global_batch, (long long)options->micro_batch,
        (long long)options->sequence, options->replicas);
    return PT_OK;
}

pt_status_t pt_loader_create(const pt_corpus_t *corpus,
                             const pt_loader_options_t *options, pt_device_t *device,
                             pt_loader_t **out)
{
    pt_status_t status;
    pt_loader_t *loader = NULL;

    *out = NULL;
    PT_TRY(loader_check_options(corpus, options));
    PT_TRY(PT_NEW("loader", 1, &loader));
    loader->corpus = corpus;
    loader->options = *options;
    loader->device = device;
    loader->micro_batches = pt_loader_micro_batches(options);
    loader->rows = options->micro_batch * options->sequence;
    for (int i = 0; i < HALVES; i++) {
        loader->half[i].step = NO_STEP;
        PT_TRY_GOTO(destroy, device->ops->event_create(device, &loader->half[i].copied));
    }
    *out = loader;
    return PT_OK;
destroy:
    pt_loader_destroy(loader);
    return status;
}

void pt_loader_destroy(pt_loader_t *loader)
{
    if (!loader)
        return;
    for (int i = 0; i < HALVES; i++)
        if (loader->half[i].copied)
            loader->device->ops->event_destroy(loader->device, loader->half[i].copied);
    pt_free(loader);
}

pt_status_t pt_loader_layout(pt_loader_t *loader, pt_arena_t *batch, pt_arena_t *staging)
{
    int64_t shape[1] = {loader->micro_batches * loader->rows};

    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!loader_has_field(loader, f))
            continue;
        PT_TRY(pt_arena_tensor(batch, fields[f].name, fields[f].dtype, 1, shape,
                               &loader->field[f]));
        for (int i = 0; i < HALVES; i++)
            PT_TRY(pt_arena_tensor(staging, fields[f].staging, fields[f].dtype, 1,
                                   shape, &loader->half[i].field[f]));
    }
    return PT_OK;
}

/* The host arrays of sequence `k` of a half. */
static pt_sequence_t loader_sequence_of(const pt_loader_t *loader, const half_t *half,
                                        int64_t k)
{
    void *part[FIELD_COUNT];

    for (int f = 0; f < FIELD_COUNT; f++)
        part[f] = loader_has_field(loader, f)
                      ? pt_tensor_slice(half->field[f], 0, k * loader->options.sequence,
                                        loader->options.sequence)
                            .data
                      : NULL;
    return (pt_sequence_t){
        .token = part[FIELD_TOKEN],
        .label = part[FIELD_LABEL],
        .place = part[FIELD_PLACE],
        .position = part[FIELD_POSITION],
        .document = part[FIELD_DOCUMENT],
        .sample = part[FIELD_SAMPLE],
        .mask = part[FIELD_MASK],
    };
}

/* Source of a sequence, and its id. index and id -1: padding. */
typedef struct source {
    const pt_corpus_t *corpus;
    pt_split_t split;
    int64_t index, id;
} source_t;

/* Fills sequence k of a half, and counts its valid labels. */
static pt_status_t loader_read_sequence(const pt_loader_t *loader, half_t *half,
                                        int64_t k, const source_t *from)
{
    pt_sequence_t sequence;
    int64_t valid =
        from->index < 0 || loader->options.no_text ? 0 : loader->options.sequence;

    /* A dry device may have no host memory either. */
    if (!loader->device->dry) {
        sequence = loader_sequence_of(loader, half, k);
        PT_TRY(pt_corpus_fill(from->corpus, from->split, from->index, from->id,
                              &sequence, &valid));
    }
    half->valid += valid;
    return PT_OK;
}

/* Makes a half writable: waits until the device has read it. */
static pt_status_t loader_reclaim(pt_loader_t *loader, half_t *half)
{
    const pt_device_ops_t *ops = loader->device->ops;
    pt_stream_t *stream = half->stream;

    half->step = NO_STEP;
    half->valid = 0;
    if (!stream)
        return PT_OK;
    if (loader->options.engine)
        PT_TRY(pt_comm_wait_event(loader->options.engine, half->copied));
    else
        PT_TRY(ops->stream_sync(loader->device, stream));
    half->stream = NULL;
    return PT_OK;
}

/* A half without data read ahead; of two, the one not copied last. */
static half_t *loader_free_half(pt_loader_t *loader)
{
    half_t *other = &loader->half[1 - loader->last];

    return other->step == NO_STEP ? other : &loader->half[loader->last];
}

static pt_status_t loader_read_step(pt_loader_t *loader, half_t *half, int64_t step)
{
    const pt_loader_options_t *options = &loader->options;
    int64_t end;

    PT_CHECK_COMMON(!__builtin_mul_overflow(step + 1, options->global_batch, &end),
                    PT_CONFIG,
                    "step %lld of train.global_batch=%lld: more sequences than 64 bits "
                    "can count",
                    (long long)step, (long long)options->global_batch);
    PT_TRY(loader_reclaim(loader, half));
    for (int64_t m = 0; m < loader->micro_batches; m++)
        for (int64_t b = 0; b < options->micro_batch; b++) {
            int64_t id = pt_loader_id(options, step, m, b);
            source_t from = {loader->corpus, PT_SPLIT_TRAIN, -1, id};
            if (id >= 0)
                from.index = pt_corpus_sample_of(loader->corpus, id);
            PT_TRY(loader_read_sequence(loader, half, m * options->micro_batch + b,
                                        &from));
        }
    half->step = step;
    return PT_OK;
}

/* Enqueues the copies of the first `rows` rows on `stream`. The half is reclaimed
 * before it is filled again. */
static pt_status_t loader_copy_out(pt_loader_t *loader, half_t *half, int64_t rows,
                                   pt_stream_t *stream)
{
    half->step = NO_STEP;
    half->stream = stream;
    loader->last = (int)(half - loader->half);
    for (int f = 0; f < FIELD_COUNT; f++) {
        pt_tensor_t to, from;
        if (!loader_has_field(loader, f))
            continue;
        to = pt_tensor_slice(loader->field[f], 0, 0, rows);
        from = pt_tensor_slice(half->field[f], 0, 0, rows);
        PT_TRY(pt_device_copy(loader->device, stream, &to, &from));
    }
    PT_TRY(loader->device->ops->event_record(loader->device, half->copied, stream));
    return PT_OK;
}

/* Returns the half that holds `step`, after reading it unless it was read ahead. Drops
 * other steps. */
static pt_status_t loader_hold_step(pt_loader_t *loader, int64_t step, half_t **out)
{
    half_t *half = NULL;

    PT_REQUIRE(step >= 0);
    for (int i = 0; i < HALVES; i++)
        if (loader->half[i].step == step)
            half = &loader->half[i];
        else
            loader->half[i].step = NO_STEP;
    if (!half) {
        half = loader_free_half(loader);
        PT_TRY(loader_read_step(loader, half, step));
    }
    *out = half;
    return PT_OK;
}

pt_status_t pt_loader_load(pt_loader_t *loader, int64_t step, pt_stream_t *stream,
                           int64_t *valid)
{
    half_t *half;

    *valid = 0;
    PT_TRY(loader_hold_step(loader, step, &half));
    PT_TRY(loader_copy_out(loader, half, loader->micro_batches * loader->rows, stream));
    loader->step = step;
    loader->training = true;
    *valid = half->valid;
    return PT_OK;
}

pt_status_t pt_loader_prefetch(pt_loader_t *loader, int64_t step, int64_t *valid)
{
    half_t *half;

    *valid = 0;
    PT_TRY(loader_hold_step(loader, step, &half));
    *valid = half->valid;
    return PT_OK;
}

pt_status_t pt_loader_load_validation(pt_loader_t *loader, const pt_corpus_t *corpus,
                                      int64_t first, int64_t end, pt_stream_t *stream,
                                      int64_t *valid)
{
    half_t *half = loader_free_half(loader);

    *valid = 0;
    PT_REQUIRE(first >= 0 && corpus->sequence == loader->options.sequence &&
               corpus->document_mask == loader->corpus->document_mask);
    PT_TRY(loader_reclaim(loader, half));
    for (int64_t b = 0; b < loader->options.micro_batch; b++) {
        int64_t index = first < end && b < end - first ? first + b : -1;
        source_t from = {corpus, PT_SPLIT_VALIDATION, index, index};
        PT_TRY(loader_read_sequence(loader, half, b, &from));
    }
    PT_TRY(loader_copy_out(loader, half, loader->rows, stream));
    loader->training = false;
    *valid = half->valid;
    return PT_OK;
}

pt_batch_view_t pt_loader_view(const pt_loader_t *loader, int64_t micro_batch)
{
    pt_tensor_t part[FIELD_COUNT];

    for (int f = 0; f < FIELD_COUNT; f++)
        part[f] = loader_has_field(loader, f)
                      ? pt_tensor_slice(loader->field[f], 0, micro_batch * loader->rows,
                                        loader->rows)
                      : loader->field[f];
    return (pt_batch_view_t){
        .token = part[FIELD_TOKEN],
        .label = part[FIELD_LABEL],
        .place = part[FIELD_PLACE],
        .position = part[FIELD_POSITION],
        .document = part[FIELD_DOCUMENT],
        .sample = part[FIELD_SAMPLE],
        .mask = part[FIELD_MASK],
        .sequences = loader->options.micro_batch,
        .step = loader->step,
        .training = loader->training,
    };
}
