/* TEST backend=cpu,shadow timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* What reaches the device, copied back without waiting, against the bytes of the
 * file. */
#include "penta/base/alloc.h"
#include "penta/data/data.h"
#include "penta/base/rng.h"
#include "regression/backend.h"
#include "regression/tap.h"

#include <string.h>
#include <unistd.h>

enum { T = 16, SAMPLES = 61, TOKENS = SAMPLES * T + 1, B = 2, G = 7, LOADS = 12 };
enum { ROWS = B * T, MOST_MICRO = 4, LINE = 10 };

static pt_config_t config;
static uint8_t bytes[TOKENS];
static pt_device_kind_t backend;

typedef struct fixture {
    pt_device_t *device;
    pt_stream_t *stream;
    pt_transport_t *transport;
    pt_engine_t *engine;
    pt_corpus_t *corpus;
    pt_loader_options_t options;
    pt_loader_t *loader;
    pt_arena_t batch, staging;
} fixture_t;

/* What one load brought, copied back. */
typedef struct got {
    int32_t *number; /* [MOST_MICRO][5][ROWS] */
    int64_t *sample; /* [MOST_MICRO][ROWS] */
    uint8_t *mask;
    int64_t valid, micro_batches,
        index[MOST_MICRO * B]; /* expected samples; -1: padding */
    int64_t id[MOST_MICRO * B];
    bool has_documents;
} got_t;

static void must(pt_status_t status)
{
    if (status == PT_OK)
        return;
    tap_ok(0, "%s", pt_error_last()->text);
    exit(1);
}

static void write_corpus(void)
{
    FILE *file = fopen("text", "wb");

    for (int i = 0; i < TOKENS; i++)
        bytes[i] =
            (uint8_t)(i % LINE == LINE - 1 ? '\n' : 'a' + pt_mix64((uint64_t)i) % 26);
    if (!file || fwrite(bytes, 1, TOKENS, file) != TOKENS || fclose(file) != 0)
        exit(1);
}

static void set_up(fixture_t *f, bool mask, bool with_engine, int replicas, int replica)
{
    pt_device_options_t device = {.kind = backend, .threads = 1, .seed = 5};

    *f = (fixture_t){0};
    pt_config_defaults(&config);
    snprintf(config.data.path, sizeof config.data.path, "text");
    config.data.split = (pt_value_split_t){0.9, 0.1};
    snprintf(config.data.separator, sizeof config.data.separator, "\\n");
    config.data.document_mask = mask;
    config.train.sequence = T;
    must(pt_device_open(&device, &f->device));
    must(f->device->ops->stream_create(f->device, &f->stream));
    if (with_engine) {
        must(pt_transport_open_serial(&f->transport));
        must(pt_engine_create(f->transport, &(pt_engine_options_t){.device = f->device},
                              &f->engine));
    }
    must(pt_corpus_open(&config, 256, true, &f->corpus));
    f->options = (pt_loader_options_t){.global_batch = G,
                                       .micro_batch = B,
                                       .sequence = T,
                                       .replicas = replicas,
                                       .replica = replica,
                                       .contexts = 1,
                                       .engine = f->engine};
    must(pt_loader_create(f->corpus, &f->options, f->device, &f->loader));
    pt_arena_init(&f->batch, PT_CLASS_BATCH, PT_MEMORY_DEVICE);
    pt_arena_init(&f->staging, PT_CLASS_STAGING, PT_MEMORY_HOST);
    must(pt_loader_layout(f->loader, &f->batch, &f->staging));
    must(pt_device_place_arena(f->device, &f->batch));
    must(pt_device_place_arena(f->device, &f->staging));
    must(pt_loader_layout(f->loader, &f->batch, &f->staging));
}

static void tear_down(fixture_t *f)
{
    must(f->device->ops->stream_sync(f->device, f->stream));
    pt_loader_destroy(f->loader);
    pt_corpus_close(f->corpus);
    pt_device_free_arena(f->device, &f->staging);
    pt_device_free_arena(f->device, &f->batch);
    f->device->ops->stream_destroy(f->device, f->stream);
    if (f->engine)
        pt_engine_destroy(f->engine);
    if (f->transport)
        pt_transport_close(f->transport);
    pt_device_close(f->device);
}

static void copy_back(fixture_t *f, pt_tensor_t from, void *to)
{
    pt_tensor_t host = pt_tensor_1d(to, from.dtype, PT_MEMORY_HOST, ROWS);

    must(pt_device_copy(f->device, f->stream, &host, &from));
}

/* Puts copies of the views on the stream; nothing is waited for. */
static void fetch(fixture_t *f, got_t *got)
{
    got->number = calloc(MOST_MICRO * 5 * ROWS, sizeof *got->number);
    got->sample = calloc(MOST_MICRO * ROWS, sizeof *got->sample);
    got->mask = calloc(MOST_MICRO * ROWS, 1);
    for (int64_t m = 0; m < got->micro_batches; m++) {
        pt_batch_view_t view = pt_loader_view(f->loader, m);
        int32_t *number = got->number + m * 5 * ROWS;
        copy_back(f, view.token, number);
        copy_back(f, view.label, number + ROWS);
        copy_back(f, view.place, number + 2 * ROWS);
        copy_back(f, view.position, number + 3 * ROWS);
        got->has_documents = view.document.data != NULL;
        if (got->has_documents)
            copy_back(f, view.document, number + 4 * ROWS);
        copy_back(f, view.sample, got->sample + m * ROWS);
        copy_back(f, view.mask, got->mask + m * ROWS);
    }
}

static void load(fixture_t *f, int64_t step, got_t *got)
{
    must(pt_loader_load(f->loader, step, f->stream, &got->valid));
    got->micro_batches = pt_loader_micro_batches(&f->options);
    for (int64_t k = 0; k < got->micro_batches * B; k++) {
        int64_t turn = k / B * f->options.replicas + f->options.replica;
        int64_t in_step = turn * B + k % B, id = in_step < G ? step * G + in_step : -1;
        got->id[k] = id;
        got->index[k] = id < 0 ? -1 : pt_corpus_sample_of(f->corpus, id);
    }
    fetch(f, got);
}

static void load_validation(fixture_t *f, int64_t first, int64_t end, got_t *got)
{
    int64_t train = pt_corpus_samples(f->corpus, PT_SPLIT_TRAIN);

    must(pt_loader_load_validation(f->loader, f->corpus, first, end, f->stream,
                                   &got->valid));
    got->micro_batches = 1;
    for (int64_t b = 0; b < B; b++) {
        got->id[b] = first + b < end ? first + b : -1;
        got->index[b] = first + b < end ? train + first + b : -1;
    }
    fetch(f, got);
}

/* Wrong elements of row t of sequence k; adds to *valid what should be valid. */
static int64_t compare_row(const got_t *got, int64_t k, int64_t t, int64_t *valid)
{
    int64_t m = k / B, row = k % B * T + t, at = got->index[k] * T + t;
    const int32_t *number = got->number + m * 5 * ROWS + row;
    int is_padding = got->index[k] < 0;
    int counts = !is_padding;
    int32_t document = 0;

    if (!is_padding && config.data.document_mask) {
        counts = bytes[at] != '\n';
        document = (int32_t)(at / LINE - got->index[k] * T / LINE);
    }
    *valid += counts;
    return (number[0] != (is_padding ? 0 : bytes[at])) +
           (!is_padding && number[ROWS] != bytes[at + 1]) + (number[2 * ROWS] != t) +
           (number[3 * ROWS] != t) + (number[4 * ROWS] != document) +
           (got->sample[m * ROWS + row] != got->id[k]) +
           (got->mask[m * ROWS + row] != counts);
}

static int64_t compare(got_t *got)
{
    int64_t wrong = 0, valid = 0;

    for (int64_t k = 0; k < got->micro_batches * B; k++)
        for (int64_t t = 0; t < T; t++)
            wrong += compare_row(got, k, t, &valid);
    wrong += valid != got->valid;
    wrong += got->has_documents != config.data.document_mask;
    free(got->number);
    free(got->sample);
    free(got->mask);
    return wrong;
}

/* What prefetch counts; load must give the same (compared there). */
static int64_t ahead;

/* Steps read ahead or not, repeated, skipped, around validation; all queued at once. */
static void test_loads(bool mask, bool with_engine, int replicas, int replica)
{
    fixture_t f;
    got_t got[LOADS] = {{0}};
    int64_t wrong = 0, validation;
    int n = 0;

    set_up(&f, mask, with_engine, replicas, replica);
    validation = pt_corpus_samples(f.corpus, PT_SPLIT_VALIDATION);
    pt_alloc_seal();
    load(&f, 0, &got[n++]);
    must(pt_loader_prefetch(f.loader, 1, &ahead));
    load(&f, 1, &got[n++]);
    must(pt_loader_prefetch(f.loader, 2, &ahead));
    must(pt_loader_prefetch(f.loader, 2, &ahead));
    load_validation(&f, 0, validation, &got[n++]);
    load_validation(&f, validation - 1, validation, &got[n++]);
    load_validation(&f, validation + 5, validation, &got[n++]);
    load(&f, 2, &got[n++]);
    must(pt_loader_prefetch(f.loader, 3, &ahead));
    load(&f, 100, &got[n++]);
    load(&f, 100, &got[n++]);
    load(&f, 3, &got[n++]);
    must(pt_loader_prefetch(f.loader, 4, &ahead));
    must(pt_loader_prefetch(f.loader, 5, &ahead));
    load(&f, 5, &got[n++]);
    load(&f, 4, &got[n++]);
    load(&f, 6, &got[n++]);
    pt_alloc_unseal();
    must(f.device->ops->stream_sync(f.device, f.stream));
    for (int i = 0; i < n; i++)
        wrong += compare(&got[i]);
    tap_ok(n == LOADS && wrong == 0, "%s, %s, replica %d of %d%s", f.device->ops->name,
           with_engine ? "engine" : "no engine", replica, replicas,
           mask ? ", documents" : "");
    tear_down(&f);
}

static void test_view(void)
{
    fixture_t f;
    pt_batch_view_t view;
    int64_t valid;

    set_up(&f, false, false, 2, 1);
    must(pt_loader_load(f.loader, 9, f.stream, &valid));
    view = pt_loader_view(f.loader, 1);
    tap_ok(view.sequences == B && view.step == 9 && view.training &&
               pt_tensor_count(&view.token) == ROWS && view.token.dtype == PT_I32 &&
               view.token.memory == PT_MEMORY_DEVICE && view.sample.dtype == PT_I64 &&
               view.mask.dtype == PT_U8 && view.document.data == NULL,
           "the view of a micro-batch");
    tap_ok(valid == 3 * T, "the last replica lacks one sequence of 7");
    must(pt_loader_load_validation(f.loader, f.corpus, 0, 2, f.stream, &valid));
    tap_ok(!pt_loader_view(f.loader, 0).training && valid == 2 * T, "validation");
    tap_ok(pt_loader_load(f.loader, INT64_MAX / 2, f.stream, &valid) == PT_CONFIG, "%s",
           pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_loader_load(f.loader, -1, f.stream, &valid) == PT_INTERNAL,
           "no step before 0");
    pt_error_clear();
    tear_down(&f);
}

static void test_file_lost(void)
{
    fixture_t f;
    got_t got = {0};
    int64_t valid;

    set_up(&f, false, false, 1, 0);
    must(pt_loader_prefetch(f.loader, 0, &ahead));
    must(pt_loader_load_validation(f.loader, f.corpus, 0, 1, f.stream, &valid));
    tap_ok(truncate("text", 10) == 0, "the file is cut short");
    load(&f, 0, &got);
    tap_ok(pt_loader_prefetch(f.loader, 1, &ahead) == PT_IO &&
               strstr(pt_error_last()->text, "text ends at byte"),
           "reading ahead fails: %s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_loader_load(f.loader, 1, f.stream, &valid) == PT_IO,
           "and does not count as read");
    pt_error_clear();
    must(f.device->ops->stream_sync(f.device, f.stream));
    tap_ok(compare(&got) == 0, "what had been read ahead was not read again");
    tear_down(&f);
    write_corpus();
}

/* A plan: no files, no memory, only counts. */
/* A stage that neither embeds nor has the loss: places and documents as the others have
 * them, and no file is read. */
static void test_no_text(void)
{
    fixture_t f, all;
    got_t full = {0};
    static int32_t numbers[3][MOST_MICRO * ROWS], expected[3][MOST_MICRO * ROWS];
    int64_t valid, wrong = 0;

    write_corpus();
    set_up(&all, true, false, 1, 0);
    load(&all, 1, &full);
    set_up(&f, true, false, 1, 0);
    pt_loader_destroy(f.loader);
    f.options.no_text = true;
    must(pt_loader_create(f.corpus, &f.options, f.device, &f.loader));
    pt_arena_place(&f.batch, f.batch.base, f.batch.capacity);
    pt_arena_place(&f.staging, f.staging.base, f.staging.capacity);
    must(pt_loader_layout(f.loader, &f.batch, &f.staging));
    tap_ok(truncate("text", 0) == 0, "the file is emptied");
    must(pt_loader_load(f.loader, 1, f.stream, &valid));
    for (int64_t m = 0; m < full.micro_batches; m++) {
        pt_batch_view_t has = pt_loader_view(f.loader, m);
        pt_batch_view_t wants = pt_loader_view(all.loader, m);
        wrong += has.token.data || has.label.data || has.mask.data;
        copy_back(&f, has.place, numbers[0] + m * ROWS);
        copy_back(&f, has.position, numbers[1] + m * ROWS);
        copy_back(&f, has.document, numbers[2] + m * ROWS);
        copy_back(&all, wants.place, expected[0] + m * ROWS);
        copy_back(&all, wants.position, expected[1] + m * ROWS);
        copy_back(&all, wants.document, expected[2] + m * ROWS);
    }
    must(f.device->ops->stream_sync(f.device, f.stream));
    must(all.device->ops->stream_sync(all.device, all.stream));
    tap_ok(wrong == 0 && valid == 0 && memcmp(numbers, expected, sizeof numbers) == 0 &&
               numbers[2][ROWS - 1] > 0,
           "without text: places and documents, of an emptied file");
    tear_down(&f);
    tear_down(&all);
    free(full.number);
    free(full.sample);
    free(full.mask);
}

static void test_dry(void)
{
    fixture_t f;
    pt_corpus_t *dry;
    int64_t valid = 0;

    backend = PT_DEVICE_DRY;
    set_up(&f, false, false, 2, 1);
    must(pt_corpus_open_dry(&config, (int64_t)1 << 50, &dry));
    pt_loader_destroy(f.loader);
    must(pt_loader_create(dry, &f.options, f.device, &f.loader));
    pt_arena_place(&f.batch, f.batch.base, f.batch.capacity);
    pt_arena_place(&f.staging, f.staging.base, f.staging.capacity);
    must(pt_loader_layout(f.loader, &f.batch, &f.staging));
    must(pt_loader_load(f.loader, 0, f.stream, &valid));
    must(pt_loader_prefetch(f.loader, 1, &ahead));
    tap_ok(valid == 3 * T, "a dry load counts valid labels");
    tear_down(&f);
    pt_corpus_close(dry);
}

int main(void)
{
    backend = backend_of_test();
    write_corpus();
    for (int i = 0; i < 4; i++)
        for (int replicas = 1; replicas <= 4; replicas++)
            test_loads(i & 1, i & 2, replicas, replicas - 1);
    test_view();
    test_file_lost();
    test_no_text();
    write_corpus();
    test_dry();
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
