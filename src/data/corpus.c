/* SPDX-License-Identifier: Apache-2.0 */
#include "src/data/private.h"

#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/base/rng.h"

#include <string.h>

enum { BYTE_VOCAB = 256, HASH_PLACES = 64, HASH_TOKENS = 256 };

/* Bytes of a token, if the format determines them. */
static int corpus_width_of(pt_format_t format)
{
    switch (format) {
    case PT_FORMAT_U16: return 2;
    case PT_FORMAT_U32: return 4;
    default: return 1;
    }
}

/* The index stays open if documents are needed. */
static pt_status_t corpus_open_indexed(pt_corpus_t *corpus, const char *path,
                                       bool check, pt_corpus_file_t *file)
{
    pt_corpus_index_t index = {.file.descriptor = -1};
    pt_status_t status =
        pt_corpus_open_indexed(corpus->option, path, check, &index, file);

    if (corpus->indexes) {
        corpus->documents += index.documents;
        corpus->indexes[file - corpus->files] = index;
    } else {
        pt_corpus_close_file(&index.file);
    }
    return status;
}

/* Files of other types train as well, but on noise. */
static pt_status_t corpus_warn_of_container(const pt_corpus_t *corpus,
                                            const pt_corpus_file_t *file)
{
    static const struct {
        const char *first, *kind;
    } kinds[] = {
        {"\x1f\x8b\x08", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd\x37zXZ", "xz"},
        {"BZh", "bzip2"},         {"PK\x03\x04", "zip"},        {"PAR1", "Parquet"},
        {"\x93NUMPY", "NumPy"},   {"\x89HDF", "HDF5"},
    };
    char head[8] = "";

    if (file->bytes < (int64_t)sizeof head)
        return PT_OK;
    PT_TRY(pt_corpus_read_file(file, 0, sizeof head - 1, (uint8_t *)head));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(head, kinds[i].first, strlen(kinds[i].first)) == 0)
            pt_log_root(PT_LOG_WARN,
                        "%s: %s begins like a %s file: its bytes are used as tokens; "
                        "unpack it if that is not intended",
                        corpus->option, file->path, kinds[i].kind);
    return PT_OK;
}

static pt_status_t corpus_open_one(pt_corpus_t *corpus, const char *path, bool check,
                                   pt_corpus_file_t *file)
{
    file->start = corpus->tokens;
    file->width = corpus_width_of(corpus->format);
    if (corpus->format == PT_FORMAT_IDX)
        PT_TRY(corpus_open_indexed(corpus, path, check, file));
    else
        PT_TRY(pt_corpus_open_file(corpus->option, path, file));
    PT_CHECK(file->bytes % file->width == 0, PT_CONFIG,
             "%s: %s has %lld bytes, not a multiple of the %d of a token: it is "
             "truncated, or data.format is wrong",
             corpus->option, file->path, (long long)file->bytes, file->width);
    if (check && corpus->format != PT_FORMAT_IDX)
        PT_TRY(corpus_warn_of_container(corpus, file));
    file->tokens = file->bytes / file->width;
    PT_CHECK(file->tokens <= INT64_MAX - file->start, PT_CONFIG,
             "%s: up to %s more tokens than 64 bits can count", corpus->option, path);
    return PT_OK;
}

static pt_status_t corpus_make_room(pt_corpus_t *corpus, int files)
{
    PT_TRY(PT_NEW("corpus files", files, &corpus->files));
    if (corpus->format != PT_FORMAT_IDX || !corpus->document_mask)
        return PT_OK;
    PT_TRY(PT_NEW("indexes of corpus files", files, &corpus->indexes));
    for (int i = 0; i < files; i++)
        corpus->indexes[i].file.descriptor = -1;
    return PT_OK;
}

/* Adds a file to the end of the corpus, which must have space for it. */
static pt_status_t corpus_add_file(pt_corpus_t *corpus, const char *path, bool check)
{
    pt_corpus_file_t *file = &corpus->files[corpus->file_count++];

    file->descriptor = -1;
    PT_TRY(corpus_open_one(corpus, path, check, file));
    corpus->tokens += file->tokens;
    return PT_OK;
}

static pt_status_t corpus_open_files(pt_corpus_t *corpus, const pt_config_t *config,
                                     bool check)
{
    int count = pt_config_items(config, PT_OPTION_data_path);
    char path[PT_CONFIG_TEXT];

    PT_CHECK(count > 0, PT_CONFIG,
             "data.path is empty: set data.path=FILE[,FILE...] to the training data");
    PT_TRY(corpus_make_room(corpus, count));
    for (int i = 0; i < count; i++) {
        pt_config_item(config, PT_OPTION_data_path, i, path);
        PT_TRY(corpus_add_file(corpus, path, check));
    }
    return pt_corpus_open_masks(corpus, config, PT_OPTION_data_mask, 0);
}

/* Makes one part of all files, whatever the weights. */
static pt_status_t corpus_make_whole_part(pt_corpus_t *corpus, const char *name)
{
    PT_TRY(PT_NEW("parts of the corpus", 1, &corpus->parts));
    corpus->part_count = 1;
    corpus->parts[0] = (pt_corpus_part_t){.name = name, .tokens = corpus->tokens};
    return PT_OK;
}

/* Makes one part, or in a blend one for each file. */
static pt_status_t corpus_make_parts(pt_corpus_t *corpus, const pt_config_t *config)
{
    int count = corpus->file_count;
    int64_t *weights = NULL;
    pt_status_t status = PT_OK;

    if (!config->data.weights[0])
        return corpus_make_whole_part(corpus, "data.path");
    PT_TRY(PT_NEW("parts of the corpus", count, &corpus->parts));
    corpus->part_count = count;
    PT_TRY(PT_NEW("weights", count, &weights));
    PT_TRY_GOTO(release, pt_config_weights(config, count, weights));
    for (int p = 0; p < count; p++) {
        const pt_corpus_file_t *file = &corpus->files[p];
        corpus->parts[p] = (pt_corpus_part_t){.name = file->path,
                                              .start = file->start,
                                              .tokens = file->tokens,
                                              .weight = weights[p]};
    }
    PT_TRY_GOTO(release, pt_corpus_blend(corpus));
release:
    pt_free(weights);
    return status;
}

static void corpus_take_options(pt_corpus_t *corpus, const pt_config_t *config)
{
    corpus->sequence = config->train.sequence;
    corpus->format = (pt_format_t)config->data.format;
    corpus->seed = (uint64_t)config->train.seed;
    corpus->shuffle = config->data.shuffle;
    corpus->document_mask = config->data.document_mask;
}

static pt_status_t corpus_create(const pt_config_t *config, int64_t vocab,
                                 pt_option_id_t id, pt_corpus_t **out)
{
    PT_CHECK(
        config->data.format != PT_FORMAT_TEXT || vocab >= BYTE_VOCAB, PT_CONFIG,
        "a vocabulary of %lld cannot hold plain text, where every byte is a token: "
        "set model.vocab=%d or more",
        (long long)vocab, BYTE_VOCAB);
    PT_TRY(PT_NEW("corpus", 1, out));
    corpus_take_options(*out, config);
    (*out)->vocab = vocab;
    pt_config_origin(config, id, (*out)->option, sizeof(*out)->option);
    return PT_OK;
}

static pt_status_t corpus_cut(pt_corpus_t *corpus, const pt_config_t *config)
{
    PT_CHECK(
        config->data.split.train > 0, PT_CONFIG,
        "data.split leaves nothing for training: its first number is a share above 0");
    return pt_corpus_cut(corpus, config->data.split.train,
                         config->data.split.validation);
}

pt_status_t pt_corpus_open(const pt_config_t *config, int64_t vocab, bool check,
                           pt_corpus_t **out)
{
    pt_status_t status;
    pt_corpus_t *corpus = NULL;

    *out = NULL;
    PT_TRY_GOTO(close, corpus_create(config, vocab, PT_OPTION_data_path, &corpus));
    PT_TRY_GOTO(close, corpus_open_files(corpus, config, check));
    PT_TRY_GOTO(close, corpus_make_parts(corpus, config));
    PT_TRY_GOTO(close, corpus_cut(corpus, config));
    PT_TRY_GOTO(close, pt_corpus_find_documents(corpus, config->data.separator,
                                                config->data.document_mask));
    *out = corpus;
    return PT_OK;
close:
    pt_corpus_close(corpus);
    return status;
}

pt_status_t pt_corpus_open_validation(const pt_config_t *config, int64_t vocab,
                                      int index, bool check, pt_corpus_t **out)
{
    pt_status_t status;
    pt_corpus_t *corpus = NULL;
    char item[PT_CONFIG_TEXT];
    const char *path = pt_config_validation(config, index, item);

    *out = NULL;
    PT_TRY_GOTO(close, corpus_create(config, vocab, PT_OPTION_data_validation, &corpus));
    PT_TRY_GOTO(close, corpus_make_room(corpus, 1));
    PT_TRY_GOTO(close, corpus_add_file(corpus, path, check));
    PT_TRY_GOTO(close, pt_corpus_open_masks(corpus, config,
                                            PT_OPTION_data_validation_mask, index));
    PT_TRY_GOTO(close, corpus_make_whole_part(corpus, corpus->files[0].path));
    PT_TRY_GOTO(close, pt_corpus_cut(corpus, 0, 1));
    PT_TRY_GOTO(close, pt_corpus_find_documents(corpus, config->data.separator,
                                                config->data.document_mask));
    *out = corpus;
    return PT_OK;
close:
    pt_corpus_close(corpus);
    return status;
}

pt_status_t pt_corpus_open_dry(const pt_config_t *config, int64_t tokens,
                               pt_corpus_t **out)
{
    pt_status_t status;
    pt_corpus_t *corpus = NULL;

    *out = NULL;
    PT_TRY(PT_NEW("corpus", 1, &corpus));
    corpus_take_options(corpus, config);
    corpus->tokens = tokens;
    PT_TRY_GOTO(close, corpus_make_whole_part(corpus, "data.path"));
    PT_TRY_GOTO(close, corpus_cut(corpus, config));
    PT_TRY_GOTO(close, PT_NEW("documents", 1, &corpus->document));
    corpus->documents = corpus->document_room = 1;
    *out = corpus;
    return PT_OK;
close:
    pt_corpus_close(corpus);
    return status;
}

void pt_corpus_close(pt_corpus_t *corpus)
{
    if (!corpus)
        return;
    for (int i = 0; i < corpus->file_count; i++)
        pt_corpus_close_file(&corpus->files[i]);
    for (int i = 0; corpus->indexes && i < corpus->file_count; i++)
        pt_corpus_close_file(&corpus->indexes[i].file);
    for (int i = 0; i < corpus->mask_count; i++)
        pt_corpus_close_file(&corpus->masks[i]);
    for (int table = 0; table < PT_BLEND_TABLES; table++)
        pt_free(corpus->turns[table]);
    pt_free(corpus->parts);
    pt_free(corpus->document);
    pt_free(corpus->indexes);
    pt_free(corpus->masks);
    pt_free(corpus->files);
    pt_free(corpus);
}

int64_t pt_corpus_tokens(const pt_corpus_t *corpus)
{
    return corpus->tokens;
}

int64_t pt_corpus_documents(const pt_corpus_t *corpus)
{
    return corpus->documents;
}

int pt_corpus_file_of(const pt_corpus_t *corpus, int64_t token)
{
    int low = 0, high = corpus->file_count; /* files[low].start <= token */

    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (corpus->files[middle].start <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Reads tokens [first, first + count), across files. raw: scratch of 8·count bytes. */
static pt_status_t corpus_read_tokens(const pt_corpus_t *corpus, int64_t first,
                                      int64_t count, void *raw, int32_t *out)
{
    if (corpus->file_count == 0) {
        memset(out, 0, (size_t)count * sizeof *out);
        return PT_OK;
    }
    for (int i = pt_corpus_file_of(corpus, first); count > 0; i++) {
        const pt_corpus_file_t *file = &corpus->files[i];
        int64_t offset = first - file->start, part = file->tokens - offset;
        if (part > count)
            part = count;
        PT_TRY(pt_corpus_read_file_tokens(file, corpus->vocab, offset, part, raw, out));
        first += part;
        count -= part;
        out += part;
    }
    return PT_OK;
}

pt_status_t pt_corpus_hash(const pt_corpus_t *corpus, uint64_t *out)
{
    int64_t raw[HASH_TOKENS], count = HASH_TOKENS;
    int32_t token[HASH_TOKENS];
    uint8_t mask[HASH_TOKENS];

    if (corpus->tokens < count)
        count = corpus->tokens;
    int64_t last = corpus->tokens - count;
    *out = (uint64_t)corpus->tokens;
    for (int64_t place = 0; place < HASH_PLACES; place++) {
        int64_t first =
            place + 1 < HASH_PLACES ? last / (HASH_PLACES - 1) * place : last;
        PT_TRY(corpus_read_tokens(corpus, first, count, raw, token));
        for (int64_t i = 0; i < count; i++)
            *out = pt_mix64(*out + (uint64_t)token[i]);
        if (corpus->mask_count == 0)
            continue;
        PT_TRY(pt_corpus_read_masks(corpus, first, count, mask));
        for (int64_t i = 0; i < count; i++)
            *out = pt_mix64(*out + mask[i]);
    }
    return PT_OK;
}

/* Numbers the documents of T tokens from `first`, and masks labels across
 * boundaries. */
static pt_status_t corpus_fill_documents(const pt_corpus_t *corpus, int64_t first,
                                         const pt_sequence_t *out)
{
    pt_boundary_t next;
    int32_t here = 0;

    PT_TRY(pt_corpus_seek_boundary(corpus, first, &next));
    for (int64_t t = 0; t < corpus->sequence; t++) {
        out->document[t] = here;
        if (next.token > first + t + 1)
            continue;
        if (out->mask)
            out->mask[t] = 0;
        here++;
        PT_TRY(pt_corpus_next_boundary(corpus, &next));
    }
    return PT_OK;
}

static int64_t corpus_count_valid(const uint8_t *mask, int64_t length)
{
    int64_t valid = 0;

    for (int64_t t = 0; t < length; t++)
        valid += mask[t];
    return valid;
}

static void corpus_fill_places(const pt_corpus_t *corpus, int64_t id,
                               const pt_sequence_t *out)
{
    for (int64_t t = 0; t < corpus->sequence; t++) {
        out->place[t] = out->position[t] = (int32_t)t;
        out->sample[t] = id;
    }
}

static void corpus_fill_padding(const pt_corpus_t *corpus, int64_t id,
                                const pt_sequence_t *out)
{
    size_t length = (size_t)corpus->sequence;

    if (out->token) {
        memset(out->token, 0, length * sizeof *out->token);
        memset(out->label, 0, length * sizeof *out->label);
        memset(out->mask, 0, length);
    }
    if (corpus->document_mask)
        memset(out->document, 0, length * sizeof *out->document);
    corpus_fill_places(corpus, id, out);
}

/* Reads inputs and labels, and masks labels by data.mask. */
static pt_status_t corpus_fill_text(const pt_corpus_t *corpus, int64_t first,
                                    const pt_sequence_t *out)
{
    int64_t length = corpus->sequence;
    void *raw = out->sample; /* unused until the tokens are known */

    PT_TRY(corpus_read_tokens(corpus, first, length, raw, out->token));
    PT_TRY(corpus_read_tokens(corpus, first + length, 1, raw, out->label + length - 1));
    memcpy(out->label, out->token + 1, (size_t)(length - 1) * sizeof *out->label);
    return pt_corpus_read_masks(corpus, first + 1, length, out->mask);
}

pt_status_t pt_corpus_fill(const pt_corpus_t *corpus, pt_split_t split, int64_t index,
                           int64_t id, const pt_sequence_t *out, int64_t *valid)
{
    int64_t first;

    *valid = 0;
    PT_REQUIRE(index >= -1 && index < corpus->samples[split]);
    if (index < 0) {
        corpus_fill_padding(corpus, id, out);
        return PT_OK;
    }
    first = pt_corpus_first_token(corpus, split, index);
    if (out->token)
        PT_TRY(corpus_fill_text(corpus, first, out));
    corpus_fill_places(corpus, id, out);
    if (corpus->document_mask)
        PT_TRY(corpus_fill_documents(corpus, first, out));
    *valid = out->token ? corpus_count_valid(out->mask, corpus->sequence) : 0;
    return PT_OK;
}
