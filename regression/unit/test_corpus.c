/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus against a brute-force reading of the same bytes, and bad files. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_reference.h"

#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static void set_text(const char *path, int64_t sequence, const char *split,
                     const char *separator, bool mask)
{
    set_config(path, PT_FORMAT_TEXT, sequence, mask);
    pt_config_set(&config, "data.split", split, "test");
    snprintf(config.data.separator, sizeof config.data.separator, "%s", separator);
}

/* Adds a file to the reference, one byte at a time. */
static void expect_file(const uint8_t *data, int64_t count, const char *separator,
                        int64_t length)
{
    int64_t begun = 0; /* a separator may begin here: not inside another */

    reference.documents++;
    reference.files++;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = i + 1 - length;
        expect_token(data[i]);
        if (length > 0 && start >= begun &&
            memcmp(data + start, separator, (size_t)length) == 0) {
            begun = i + 1;
            reference.documents += i + 1 < count;
        }
    }
}

static const struct {
    const char *spelling, *text;
    int64_t length;
} separators[] = {{"", "", 0},
                  {"\\n", "\n", 1},
                  {"\\n\\n", "\n\n", 2},
                  {"aba", "aba", 3},
                  {"\\x0a\\x00", "\n\0", 2},
                  {"aa", "aa", 2},
                  {"\\\\\\t", "\\\t", 2},
                  {"\n", "\n", 1}};
enum { SEPARATORS = sizeof separators / sizeof separators[0] };

/* Few letters, so that separators are frequent, overlap and stand at the ends. */
static void random_file(const char *name, int s, int64_t count)
{
    uint8_t data[64];

    for (int64_t i = 0; i < count; i++)
        data[i] = (uint8_t) "ab\n\0\\\t"[draw(6)];
    for (int64_t i = 0; i + separators[s].length <= count; i++)
        if (separators[s].length > 0 && draw(5) == 0)
            memcpy(data + i, separators[s].text, (size_t)separators[s].length);
    write_bytes(name, data, count);
    expect_file(data, count, separators[s].text, separators[s].length);
}

static void test_random(void)
{
    static const int64_t lengths[] = {1, 2, 3, 7, 16};
    int64_t wrong = 0;

    for (int s = 0; s < SEPARATORS; s++, wrong = 0) {
        for (int round = 0; round < 60; round++) {
            expect_nothing();
            random_file("a", s, 1 + (int64_t)draw(40));
            random_file("b", s, 1 + (int64_t)draw(3));
            random_file("c", s, 60);
            set_text("a, b ,c", lengths[draw(5)], "0.7,0.3", separators[s].spelling,
                     draw(4) > 0);
            wrong += check_corpus(256);
        }
        tap_ok(wrong == 0, "60 small corpora, separator %d", s);
    }
}

/* Separators in every position on borders of the blocks in which a file is searched. */
static void test_borders(void)
{
    static uint8_t data[9 * BLOCK];

    for (int64_t i = 0; i < (int64_t)sizeof data; i++)
        data[i] = (uint8_t)('a' + draw(20));
    for (int i = 1; i < 9; i++)
        memcpy(data + i * BLOCK - i + 1, "--END--", 7);
    memcpy(data + sizeof data - 7, "--END--", 7);
    write_bytes("large", data, sizeof data);
    expect_nothing();
    expect_file(data, sizeof data, "--END--", 7);
    set_text("large", 1021, "0.9,0.1", "--END--", true);
    tap_ok(reference.documents == 9 && check_corpus(256) == 0,
           "separators across block borders");
}

static void test_padding(void)
{
    int32_t token[4] = {7, 7, 7, 7}, label[4] = {7, 7, 7, 7}, place[4], position[4];
    int32_t number[4] = {7, 7, 7, 7};
    int64_t sample[4], valid = 7, wrong = 0;
    uint8_t mask[4] = {1, 1, 1, 1};
    pt_sequence_t out = {token, label, place, position, number, sample, mask};
    pt_corpus_t *corpus;

    write_bytes("a", (const uint8_t *)"0123456789", 10);
    set_text("a", 4, "1,0", "", true);
    if (!tap_ok(pt_corpus_open(&config, 256, true, &corpus) == PT_OK,
                "a corpus of 10 bytes"))
        return;
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, -1, -1, &out, &valid) == PT_OK &&
               valid == 0,
           "padding has no valid label");
    for (int t = 0; t < 4; t++)
        wrong += token[t] != 0 || mask[t] != 0 || label[t] != 0 || place[t] != t ||
                 position[t] != t || number[t] != 0 || sample[t] != -1;
    tap_ok(wrong == 0, "padding is token 0, masked");
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 2, 2, &out, &valid) == PT_INTERNAL,
           "a sample that is not there");
    pt_error_clear();
    pt_corpus_close(corpus);
}

/* Opening must fail with this status and a message that holds both texts. */
static void fails(pt_status_t expected, int64_t vocab, const char *has, const char *also)
{
    pt_corpus_t *corpus;
    int64_t before = pt_alloc_live_bytes();
    pt_status_t status = pt_corpus_open(&config, vocab, true, &corpus);
    const char *text = pt_error_last()->text;

    tap_ok(status == expected && corpus == NULL && strstr(text, has) &&
               strstr(text, also) && pt_alloc_live_bytes() == before,
           "%s: %.300s", pt_status_name(status), text);
    pt_error_clear();
}

static void fails_path(pt_status_t expected, const char *path, const char *has)
{
    set_text(path, 4, "1,0", "", false);
    fails(expected, 256, "data.path", has);
}

static void test_bad_files(void)
{
    static char endless[PT_CONFIG_TEXT];

    write_bytes("a", (const uint8_t *)"0123456789", 10);
    write_bytes("empty", (const uint8_t *)"", 0);
    (void)mkdir("folder", 0777);
    (void)mkfifo("pipe", 0666);
    memset(endless, 'x', sizeof endless - 1);
    fails_path(PT_CONFIG, "absent", "no file absent in the working directory /");
    fails_path(PT_CONFIG, "/absent/file", "no file /absent/file");
    fails_path(PT_CONFIG, "a/b", "no file a/b");
    fails_path(PT_CONFIG, "a,folder", "folder is a directory");
    fails_path(PT_CONFIG, "pipe", "pipe is not a regular file");
    fails_path(PT_CONFIG, "/dev/zero", "/dev/zero is not a regular file");
    fails_path(PT_CONFIG, "empty,a", "empty is empty");
    fails_path(PT_CONFIG, "", "data.path is empty");
    fails_path(PT_CONFIG, " \t", "data.path is empty");
    snprintf(config.origin[PT_OPTION_data_path], PT_CONFIG_ORIGIN, "conf.ini:7");
    fails(PT_CONFIG, 256, "data.path is empty", "");
    set_text("absent", 4, "1,0", "", false);
    snprintf(config.origin[PT_OPTION_data_path], PT_CONFIG_ORIGIN, "conf.ini:7");
    fails(PT_CONFIG, 256, "data.path (conf.ini:7): no file absent", "");
    fails_path(PT_IO, endless, "File name too long");
    (void)chmod("empty", 0);
    if (geteuid() == 0)
        tap_skip("permissions do not stop root");
    else
        fails_path(PT_IO, "empty", "cannot open empty");
}

static void test_bad_options(void)
{
    set_text("a", 10, "1,0", "", false);
    fails(PT_CONFIG, 256, "10 tokens",
          "need 11; use more text, or at most train.sequence=9");
    fails(PT_CONFIG, 255, "vocabulary of 255", "model.vocab=256");
    set_text("a", 9, "0.5,0.5", "", false);
    fails(PT_CONFIG, 256, "need 19", "train.sequence=4");
    set_text("a", 4, "0.5,0.5", "", false);
    expect_nothing();
    expect_file((const uint8_t *)"0123456789", 10, "", 0);
    tap_ok(check_corpus(256) == 0, "… and 4 works");
    set_text("a", 4, "0.01,0.5", "", false);
    fails(PT_CONFIG, 256, "10 tokens, too few", "need 401; use more text");
    set_text("a", 4, "0,1", "", false);
    fails(PT_CONFIG, 256, "data.split", "nothing for training");
    set_text("a", 4, "1e-300,0.5", "", false);
    fails(PT_CONFIG, 256, "data.split", "too small");
    for (const char *const *bad =
             (const char *const[]){"\\", "a\\q", "\\x1", "\\xg0", NULL};
         *bad; bad++) {
        set_text("a", 4, "1,0", *bad, false);
        fails(PT_CONFIG, 256, "data.separator", *bad);
    }
}

static void test_truncated(void)
{
    int32_t numbers[5][4];
    int64_t sample[4], valid;
    uint8_t mask[4];
    pt_sequence_t out = {numbers[0], numbers[1], numbers[2], numbers[3],
                         numbers[4], sample,     mask};
    pt_corpus_t *corpus;

    write_bytes("a", (const uint8_t *)"0123456789", 10);
    write_bytes("shrinks", (const uint8_t *)"0123456789", 10);
    set_text("a,shrinks", 4, "1,0", "", false);
    if (!tap_ok(pt_corpus_open(&config, 256, true, &corpus) == PT_OK, "two files"))
        return;
    tap_ok(truncate("shrinks", 5) == 0, "one shrinks");
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 2, 2, &out, &valid) == PT_OK,
           "what is left can be read");
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 3, 3, &out, &valid) == PT_IO &&
               strstr(pt_error_last()->text, "shrinks ends at byte 5") && valid == 0,
           "%s", pt_error_last()->text);
    pt_error_clear();
    pt_corpus_close(corpus);
}

static uint64_t hash_of(const char *path, pt_format_t format)
{
    pt_corpus_t *corpus;
    uint64_t hash = 0;

    set_text(path, 4, "1,0", "", false);
    config.data.format = (int)format;
    if (tap_ok(pt_corpus_open(&config, 256, true, &corpus) == PT_OK, "%s", path))
        tap_ok(pt_corpus_hash(corpus, &hash) == PT_OK, "has a hash");
    pt_corpus_close(corpus);
    return hash;
}

/* Of the tokens, wherever they are kept, and of what is at either end. */
static void test_hash(void)
{
    enum { N = 100000 };
    static uint8_t text[N], wide[2 * N];
    uint64_t whole;

    for (int i = 0; i < N; i++)
        wide[2 * i] = text[i] = (uint8_t)draw(256);
    write_bytes("whole", text, N);
    write_bytes("half1", text, 30001);
    write_bytes("half2", text + 30001, N - 30001);
    write_bytes("wide", wide, 2 * N);
    whole = hash_of("whole", PT_FORMAT_TEXT);
    tap_ok(hash_of("half1,half2", PT_FORMAT_TEXT) == whole, "two files, the same text");
    tap_ok(hash_of("wide", PT_FORMAT_U16) == whole, "two bytes a token");
    tap_ok(hash_of("half2,half1", PT_FORMAT_TEXT) != whole, "in another order");
    for (int i = 0; i < 3; i++) {
        int at = (int[]){0, N / 63 * 31, N - 1}[i];
        text[at] ^= 1;
        write_bytes("changed", text, N);
        text[at] ^= 1;
        tap_ok(hash_of("changed", PT_FORMAT_TEXT) != whole, "byte %d is another", at);
    }
    write_bytes("changed", text, N - 1);
    tap_ok(hash_of("changed", PT_FORMAT_TEXT) != whole, "a byte less");
    write_bytes("tiny", text, 5);
    tap_ok(hash_of("tiny", PT_FORMAT_TEXT) != whole, "shorter than what is looked at");
}

int main(void)
{
    test_random();
    test_hash();
    test_borders();
    test_padding();
    test_bad_files();
    test_bad_options();
    test_truncated();
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
