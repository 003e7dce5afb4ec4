/* TEST timeout=60,900 */
/* SPDX-License-Identifier: Apache-2.0 */
/* An index of many documents: the rank that checks it reads all of it once, the others
 * next to nothing, and none holds it in memory; boundaries are right wherever a sample
 * begins, also behind another file; an index that is cut short or changed under way is
 * an error. At level long it has 10^8 documents. */
#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "regression/unit/corpus_files.h"

#include <inttypes.h>
#include <unistd.h>

enum { T = 64, HEADER = 34 };

static int64_t documents = 1000000;

/* A document is a sequence of d % 4 tokens: every fourth is empty. */
static int64_t length_of(int64_t d)
{
    return d % 4;
}

static int64_t start_of(int64_t d)
{
    static const int64_t before[] = {0, 0, 1, 3};

    return d / 4 * 6 + before[d % 4];
}

static int64_t itself(int64_t d)
{
    return d;
}

static void put_column(FILE *file, int64_t count, int width, int64_t (*value)(int64_t))
{
    uint8_t block[1 << 13];
    int used = 0;

    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = (uint64_t)value(i);
        for (int b = 0; b < width; b++)
            block[used++] = (uint8_t)(bits >> 8 * b);
        if (used + width > (int)sizeof block || i + 1 == count) {
            fwrite(block, 1, (size_t)used, file);
            used = 0;
        }
    }
}

/* Tokens of one byte, all 0: the .bin is a hole. */
static void make_large(void)
{
    FILE *file = fopen("large.idx", "wb"), *tokens = fopen("large.bin", "wb");

    idx.count = 0;
    for (int i = 0; i < 9; i++)
        put(&idx, (uint8_t) "MMIDIDX\0"[i], 1);
    put(&idx, 1, 8);
    put(&idx, 1, 1);
    put(&idx, (uint64_t)documents, 8);
    put(&idx, (uint64_t)documents + 1, 8);
    if (!file || !tokens || idx.count != HEADER)
        exit(1);
    fwrite(idx.bytes, 1, HEADER, file);
    put_column(file, documents, 4, length_of);
    put_column(file, documents, 8, start_of);
    put_column(file, documents + 1, 8, itself);
    if (fclose(file) != 0 || ftruncate(fileno(tokens), start_of(documents)) != 0 ||
        fclose(tokens) != 0)
        exit(1);
}

/* Bytes that this process has read, as the kernel counts them. */
static int64_t bytes_read(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    int64_t bytes = -1;

    if (file && fscanf(file, "rchar: %" SCNd64, &bytes) != 1)
        bytes = -1;
    if (file)
        fclose(file);
    return bytes;
}

static pt_corpus_t *open_large(bool check)
{
    pt_corpus_t *corpus = NULL;
    int64_t whole = HEADER + documents * 20 + 8, before = bytes_read(), read, held;
    double began = pt_clock_sec();

    if (pt_corpus_open(&config, 256, check, &corpus) != PT_OK) {
        tap_ok(0, "%s", pt_error_last()->text);
        exit(tap_done());
    }
    tap_note("opened in %.2f s", pt_clock_sec() - began);
    read = bytes_read() - before;
    held = pt_alloc_live_bytes();
    if (before >= 0)
        tap_ok(check ? read >= whole && read < whole + 8192 : read < 8192,
               "%s reads %" PRId64 " bytes of %" PRId64,
               check ? "the rank that checks" : "another rank", read, whole);
    tap_ok(held < 65536, "and holds %" PRId64 " bytes", held);
    return corpus;
}

/* Document of a token of the large file, not counting empty ones: 3 in 6 tokens, of 1,
 * 2 and 3. */
static int64_t number_of(int64_t token)
{
    static const int part[] = {0, 1, 1, 2, 2, 2};

    return token / 6 * 3 + part[token % 6];
}

/* `offset`: tokens before the large file, a document of their own. */
static int64_t check_sample(const pt_corpus_t *corpus, int64_t index, int64_t offset)
{
    int32_t token[T], label[T], place[T], position[T], document[T];
    int64_t sample[T], valid, wrong = 0, first = index * T - offset;
    uint8_t mask[T];
    pt_sequence_t out = {token, label, place, position, document, sample, mask};

    if (pt_corpus_fill(corpus, PT_SPLIT_TRAIN, index, index, &out, &valid) != PT_OK)
        return 1;
    for (int64_t t = 0; t < T; t++) {
        int64_t is = first + t < 0 ? -1 : number_of(first + t);
        int64_t next = first + t + 1 < 0 ? -1 : number_of(first + t + 1);
        wrong += document[t] != is - (first < 0 ? -1 : number_of(first));
        wrong += mask[t] != (is == next);
    }
    return wrong;
}

static void test_large(void)
{
    set_config("large", PT_FORMAT_IDX, T, true);
    config.data.split = (pt_value_split_t){1, 0};
    for (int check = 0; check < 2; check++) {
        pt_corpus_t *corpus = open_large(check);
        int64_t samples = pt_corpus_samples(corpus, PT_SPLIT_TRAIN), wrong = 0;
        double began = pt_clock_sec();

        for (int64_t k = 0; k < 1000; k++)
            wrong += check_sample(corpus, samples / 1000 * k, 0);
        wrong += check_sample(corpus, samples - 1, 0);
        tap_note("%.1f us a sample", (pt_clock_sec() - began) * 1e3);
        tap_ok(wrong == 0 && pt_corpus_documents(corpus) == documents,
               "samples of %" PRId64 " documents", documents);
        pt_corpus_close(corpus);
    }
}

/* Behind a small file, over the border. */
static void test_second_file(void)
{
    pt_corpus_t *corpus = NULL;
    int64_t wrong = 0;

    idx.count = bin.count = 0;
    for (int i = 0; i < 9; i++)
        put(&idx, (uint8_t) "MMIDIDX\0"[i], 1);
    put(&idx, 1, 8);
    put(&idx, 1, 1);
    put(&idx, 1, 8);
    put(&idx, 2, 8);
    put(&idx, 100, 4);
    put(&idx, 0, 8);
    put(&idx, 0, 8);
    put(&idx, 1, 8);
    for (int i = 0; i < 100; i++)
        put(&bin, 0, 1);
    write_pair("small");
    set_config("small,large", PT_FORMAT_IDX, T, true);
    config.data.split = (pt_value_split_t){1, 0};
    if (pt_corpus_open(&config, 256, false, &corpus) != PT_OK)
        exit(1);
    for (int64_t k = 0; k < 50; k++)
        wrong += check_sample(corpus, k, 100);
    tap_ok(wrong == 0 && pt_corpus_documents(corpus) == documents + 1,
           "samples over the border of two files");
    pt_corpus_close(corpus);
}

/* After the check: neither a crash nor numbers that nobody checked. */
static void test_changed(void)
{
    int32_t numbers[5][T];
    int64_t sample[T], valid;
    uint8_t mask[T], wild[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    pt_sequence_t out = {numbers[0], numbers[1], numbers[2], numbers[3],
                         numbers[4], sample,     mask};
    pt_corpus_t *corpus = NULL;
    FILE *file = fopen("large.idx", "r+b");

    set_config("large", PT_FORMAT_IDX, T, true);
    config.data.split = (pt_value_split_t){1, 0};
    if (!file || pt_corpus_open(&config, 256, false, &corpus) != PT_OK)
        exit(1);
    /* The first document that a search looks at. */
    fseek(file, HEADER + 12 * documents + 8 * (documents / 2), SEEK_SET);
    fwrite(wild, 1, 8, file);
    fclose(file);
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 0, 0, &out, &valid) == PT_IO &&
               strstr(pt_error_last()->text, "large.idx: byte") &&
               strstr(pt_error_last()->text, "do not change"),
           "a number that changed: %s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(truncate("large.idx", 1000) == 0 &&
               pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 0, 0, &out, &valid) == PT_IO &&
               strstr(pt_error_last()->text, "large.idx ends at byte 1000"),
           "cut short: %s", pt_error_last()->text);
    pt_error_clear();
    pt_corpus_close(corpus);
}

int main(void)
{
    const char *level = getenv("PENTA_TEST_LEVEL");

    if (level && strcmp(level, "long") == 0)
        documents = 100000000;
    make_large();
    test_large();
    test_second_file();
    test_changed();
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
