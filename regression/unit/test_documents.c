/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that doc/formats/corpus.md promises: regression/documents/samples.txt was
 * made by a program in Python that knows nothing but that page. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_files.h"

#include <inttypes.h>

enum { FILES = 3, MOST = 256, LINE = 4096 };

static const int lengths[FILES] = {203, 97, 150};
static pt_corpus_t *corpus;
static char title[LINE];
static int wrong, seen;

/* Equal to those of documents.py. */
static void write_files(void)
{
    for (int f = 0; f < FILES; f++) {
        char name[2][3] = {{'f', (char)('0' + f)}, {'m', (char)('0' + f)}};
        uint8_t text[MOST], mask[MOST];
        for (int i = 0; i < lengths[f]; i++) {
            text[i] =
                (uint8_t)(i % 11 == 10 ? '\n' : 'a' + (i * i + 3 * i * f + f) % 26);
            mask[i] = i % 3 != 1;
        }
        write_bytes(name[0], text, lengths[f]);
        write_bytes(name[1], mask, lengths[f]);
    }
}

static void finish_case(void)
{
    if (corpus)
        tap_ok(wrong == 0 && seen > 2, "%s: %d lines, %d wrong", title, seen, wrong);
    pt_corpus_close(corpus);
    corpus = NULL;
    wrong = seen = 0;
}

/* "files=N section.key=value ..." */
static void begin_case(char *line)
{
    static const char *const paths[] = {"", "f0", "f0,f1", "f0,f1,f2"};
    char *gathered = NULL, *arguments[16];
    int count = 0, files = line[6] - '0';
    char path[64];

    snprintf(title, sizeof title, "%s", line);
    snprintf(path, sizeof path, "data.path=%s", paths[files]);
    strtok(line, " ");
    arguments[count++] = path;
    while ((arguments[count] = strtok(NULL, " ")) != NULL)
        count++;
    if (pt_config_gather(NULL, count, arguments, &gathered) != PT_OK ||
        pt_config_parse(gathered, &config) != PT_OK ||
        pt_corpus_open(&config, 256, true, &corpus) != PT_OK) {
        tap_ok(0, "%s: %s", title, pt_error_last()->text);
        exit(1);
    }
    pt_free(gathered);
}

/* Sample `index` of a split as a line of samples.txt says it. */
static void say_sample(pt_split_t split, int64_t index, char *out, size_t size)
{
    static int32_t token[MOST], label[MOST], place[MOST], position[MOST],
        document[MOST];
    static int64_t sample[MOST];
    static uint8_t mask[MOST];
    pt_sequence_t sequence = {token, label, place, position, document, sample, mask};
    int64_t valid, T = config.train.sequence;
    pt_text_t text = pt_text_init(out, size);

    if (pt_corpus_fill(corpus, split, index, 0, &sequence, &valid) != PT_OK)
        wrong++;
    for (int64_t t = 0; t < T; t++)
        pt_text_add(&text, "%d", mask[t]);
    pt_text_add(&text, " ");
    for (int64_t t = 0; t < T && config.data.document_mask; t++)
        pt_text_add(&text, "%d", document[t]);
    pt_text_add(&text, config.data.document_mask ? "" : "-");
    for (int64_t t = 0; t < T; t++) {
        pt_text_add(&text, " %d", token[t]);
        wrong += place[t] != t || position[t] != t;
        wrong += t + 1 < T && label[t] != token[t + 1];
    }
    pt_text_add(&text, " %d", label[T - 1]);
}

/* "STEP RANK RANKS B G id ..." */
static void check_step(const char *line)
{
    long step, rank, ranks, B, G;
    int taken;
    char found[LINE];
    pt_text_t text = pt_text_init(found, sizeof found);

    if (sscanf(line, "%ld %ld %ld %ld %ld %n", &step, &rank, &ranks, &B, &G, &taken) <
        5) {
        tap_ok(0, "samples.txt: %s", line);
        exit(1);
    }
    pt_loader_options_t options = {.global_batch = G,
                                   .micro_batch = B,
                                   .replicas = (int)ranks,
                                   .replica = (int)rank};
    for (int64_t i = 0; i < pt_loader_micro_batches(&options); i++)
        for (int64_t b = 0; b < B; b++)
            pt_text_add(&text, "%s%" PRId64, text.length ? " " : "",
                        pt_loader_id(&options, step, i, b));
    tap_ok(strcmp(found, line + taken) == 0, "step %s: %s", line, found);
}

static void check_line(char *line)
{
    char found[LINE] = "";
    long long number;
    int taken = 0;
    uint64_t hash = 0;

    seen++;
    if (strncmp(line, "hash ", 5) == 0) {
        wrong += pt_corpus_hash(corpus, &hash) != PT_OK;
        snprintf(found, sizeof found, "hash %016" PRIx64, hash);
        wrong += strcmp(found, line) != 0;
    } else if (strncmp(line, "samples ", 8) == 0) {
        snprintf(found, sizeof found, "samples %" PRId64 " %" PRId64,
                 pt_corpus_samples(corpus, PT_SPLIT_TRAIN),
                 pt_corpus_samples(corpus, PT_SPLIT_VALIDATION));
        wrong += strcmp(found, line) != 0;
    } else if (sscanf(line, "train %lld %n", &number, &taken) == 1) {
        say_sample(PT_SPLIT_TRAIN, pt_corpus_sample_of(corpus, number), found,
                   sizeof found);
        wrong += strcmp(found, line + taken) != 0;
    } else if (sscanf(line, "validation %lld %n", &number, &taken) == 1) {
        say_sample(PT_SPLIT_VALIDATION, number, found, sizeof found);
        wrong += strcmp(found, line + taken) != 0;
    } else {
        wrong++;
    }
}

int main(void)
{
    const char *source = getenv("PENTA_SRCDIR");
    char path[LINE], line[LINE];

    write_files();
    snprintf(path, sizeof path, "%s/regression/documents/samples.txt",
             source ? source : ".");
    FILE *file = fopen(path, "r");
    tap_ok(file != NULL, "%s", path);
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "case ", 5) == 0) {
            finish_case();
            begin_case(line + 5);
        } else if (strncmp(line, "step ", 5) == 0) {
            finish_case();
            check_step(line + 5);
        } else if (line[0] != '#') {
            check_line(line);
        }
    }
    finish_case();
    if (file)
        fclose(file);
    return tap_done();
}
