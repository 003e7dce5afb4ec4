/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Loss masks: every sample against a brute-force reading, blends, and masks that are
 * none. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_reference.h"

#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 3 };

static const char *const names[FILES] = {"a", "b", "c"};

static void set_masks(const char *list)
{
    snprintf(config.data.mask, sizeof config.data.mask, "%s", list);
}

/* A file of `count` tokens of `width` bytes and its mask, which is of the token or
 * drawn. */
static void make_file(const char *name, int64_t count, int width, bool masks)
{
    static uint8_t mask[ROOM];
    char path[16];

    bin.count = 0;
    reference.files++;
    reference.documents++;
    for (int64_t i = 0; i < count; i++) {
        int64_t token = (int64_t)draw(256);
        put(&bin, (uint64_t)token, width);
        expect_token(token);
        mask[i] = (uint8_t)draw(2);
        reference.masked[reference.tokens - 1] = masks && !mask[i];
    }
    write_bytes(name, bin.bytes, bin.count);
    snprintf(path, sizeof path, "%s.mask", name);
    write_bytes(path, mask, count);
}

static void test_random(int format, int width)
{
    int64_t wrong = 0;

    for (int round = 0; round < 60; round++) {
        char list[64] = "";
        expect_nothing();
        for (int f = 0; f < FILES; f++) {
            bool masks = draw(3) > 0;
            make_file(names[f], (f == 0 ? 40 : 1) + (int64_t)draw(40), width, masks);
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s%s",
                     f ? " , " : "", masks ? names[f] : "-", masks ? ".mask" : "");
        }
        set_config("a,b,c", format, 1 + (int64_t)draw(LONGEST), draw(2));
        set_masks(list);
        wrong += check_corpus(256);
    }
    tap_ok(wrong == 0, "60 corpora of three files of %d-byte tokens, masks of some",
           width);
}

/* Of pairs with an index the mask goes by tokens too. */
static void test_indexed(void)
{
    static const uint64_t length[] = {3, 40, 0, 4}, first[] = {0, 2, 4};
    static uint8_t mask[47];
    uint64_t at = 0;
    int64_t wrong = 0;

    idx.count = bin.count = 0;
    expect_nothing();
    reference.files = 1;
    for (int i = 0; i < 9; i++)
        put(&idx, (uint8_t) "MMIDIDX\0"[i], 1);
    put(&idx, 1, 8);
    put(&idx, 4, 1);
    put(&idx, 4, 8);
    put(&idx, 3, 8);
    for (int i = 0; i < 4; i++)
        put(&idx, length[i], 4);
    for (int i = 0; i < 4; at += 4 * length[i++])
        put(&idx, at, 8);
    for (int i = 0; i < 3; i++)
        put(&idx, first[i], 8);
    for (int i = 0; i < 47; i++) {
        reference.documents += i == 0 || i == 43;
        put(&bin, (uint64_t)i, 4);
        expect_token(i);
        mask[i] = (uint8_t)draw(2);
        reference.masked[i] = !mask[i];
    }
    write_pair("pair");
    write_bytes("pair.mask", mask, 47);
    for (int64_t T = 1; T < LONGEST; T++) {
        set_config("pair", PT_FORMAT_IDX, T, T % 2);
        set_masks("pair.mask");
        wrong += check_corpus(256);
    }
    tap_ok(wrong == 0, "a pair with an index");
}

/* Samples of a blend, in their order: the mask of a label is its token's last bit. */
static void test_blend(void)
{
    static uint8_t mask[ROOM];
    int32_t token[7], label[7], place[7], position[7];
    int64_t sample[7], valid, wrong = 0, counted = 0;
    uint8_t got[7];
    pt_sequence_t out = {token, label, place, position, NULL, sample, got};
    pt_corpus_t *corpus;

    for (int f = 0; f < FILES; f++) {
        char path[16];
        bin.count = 0;
        for (int i = 0; i < 100 + 50 * f; i++) {
            uint64_t id = draw(60000);
            put(&bin, id, 2);
            mask[i] = id & 1;
        }
        write_bytes(names[f], bin.bytes, bin.count);
        snprintf(path, sizeof path, "%s.mask", names[f]);
        write_bytes(path, mask, bin.count / 2);
    }
    set_config("a,b,c", PT_FORMAT_U16, 7, false);
    set_masks("a.mask,b.mask,c.mask");
    snprintf(config.data.weights, sizeof config.data.weights, "5,3,2");
    if (!tap_ok(pt_corpus_open(&config, 60000, true, &corpus) == PT_OK,
                "a blend with masks"))
        return;
    for (int64_t id = 0; id < 400; id++) {
        pt_split_t split = id < 300 ? PT_SPLIT_TRAIN : PT_SPLIT_VALIDATION;
        int64_t index = id < 300 ? pt_corpus_sample_of(corpus, id) : id - 300, n = 0;
        if (split == PT_SPLIT_VALIDATION && index >= pt_corpus_samples(corpus, split))
            break;
        wrong += pt_corpus_fill(corpus, split, index, id, &out, &valid) != PT_OK;
        for (int t = 0; t < 7; t++) {
            wrong += got[t] != (label[t] & 1);
            n += got[t];
        }
        wrong += valid != n;
        counted += n;
    }
    tap_ok(wrong == 0 && counted > 100, "masks follow the samples of a blend");
    pt_corpus_close(corpus);
}

/* Opening must fail and say both. */
static void fails(pt_status_t expected, const char *masks, const char *has,
                  const char *also)
{
    pt_corpus_t *corpus;
    int64_t before = pt_alloc_live_bytes();
    pt_status_t status;

    set_config("a,b", PT_FORMAT_U16, 4, false);
    set_masks(masks);
    status = pt_corpus_open(&config, 256, true, &corpus);
    tap_ok(status == expected && !corpus && strstr(pt_error_last()->text, has) &&
               strstr(pt_error_last()->text, also) && pt_alloc_live_bytes() == before,
           "%s: %.200s", pt_status_name(status), pt_error_last()->text);
    pt_error_clear();
}

static void test_bad(void)
{
    expect_nothing();
    make_file("a", 30, 2, true);
    make_file("b", 20, 2, true);
    write_bytes("long", bin.bytes, 31);
    write_bytes("empty", bin.bytes, 0);
    (void)mkdir("folder", 0777);
    fails(PT_CONFIG, "absent,-", "data.mask (default): no file absent", "directory");
    fails(PT_CONFIG, "-,folder", "data.mask", "folder is a directory");
    fails(PT_CONFIG, "empty,-", "data.mask", "empty is empty");
    fails(PT_CONFIG, "long,-", "long has 31 bytes, but a has 30 tokens", "one byte");
    fails(PT_CONFIG, "a.mask,a.mask", "a.mask has 30 bytes, but b has 20 tokens", "");
    fails(PT_CONFIG, "a.mask,b", "b has 40 bytes, but b has 20 tokens", "");
}

/* What is wrong inside shows when it is read. */
static void test_content(void)
{
    int32_t numbers[4][4];
    int64_t sample[4], valid = 7;
    uint8_t mask[4], bytes[30];
    pt_sequence_t out = {numbers[0], numbers[1], numbers[2], numbers[3],
                         NULL,       sample,     mask};
    pt_corpus_t *corpus;

    memset(bytes, 1, sizeof bytes);
    bytes[0] = 255; /* of a token that is never predicted */
    bytes[9] = 2;
    write_bytes("two", bytes, 30);
    set_config("a", PT_FORMAT_U16, 4, false);
    set_masks("two");
    if (!tap_ok(pt_corpus_open(&config, 256, true, &corpus) == PT_OK,
                "a mask of 30 bytes"))
        return;
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 1, 1, &out, &valid) == PT_OK &&
               valid == 4,
           "where it is right it can be used");
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 2, 2, &out, &valid) == PT_CONFIG &&
               strstr(pt_error_last()->text, "two: byte number 9 is 2") && valid == 0,
           "%s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(truncate("two", 7) == 0, "it shrinks");
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 1, 1, &out, &valid) == PT_IO &&
               strstr(pt_error_last()->text, "two ends at byte 7") && valid == 0,
           "%s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(truncate("two", 3) == 0, "it ends before what is asked for");
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, 1, 1, &out, &valid) == PT_IO &&
               strstr(pt_error_last()->text, "two ends at byte 3,") && valid == 0,
           "%s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_corpus_fill(corpus, PT_SPLIT_TRAIN, -1, -1, &out, &valid) == PT_OK &&
               valid == 0 && mask[0] == 0,
           "padding needs no mask");
    pt_corpus_close(corpus);
}

int main(void)
{
    test_random(PT_FORMAT_TEXT, 1);
    test_random(PT_FORMAT_U16, 2);
    test_random(PT_FORMAT_U32, 4);
    test_indexed();
    test_blend();
    test_bad();
    test_content();
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
