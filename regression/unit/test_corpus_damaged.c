/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged files of tokens: refused in one sentence, or read rightly. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_files.h"

#include <unistd.h>

enum { HEADER = 34 };

/* Opening, and reading every sample; the caller looks at the message. */
static pt_status_t read_all(void)
{
    static int32_t numbers[5][LONGEST];
    static int64_t sample[LONGEST];
    static uint8_t mask[LONGEST];
    pt_sequence_t out = {numbers[0], numbers[1], numbers[2], numbers[3],
                         numbers[4], sample,     mask};
    pt_corpus_t *corpus;
    int64_t valid;
    pt_status_t status = pt_corpus_open(&config, VOCAB, true, &corpus);

    if (status != PT_OK)
        return status;
    for (int split = 0; split < 2; split++)
        for (int64_t k = 0; k < pt_corpus_samples(corpus, (pt_split_t)split); k++)
            if (status == PT_OK)
                status = pt_corpus_fill(corpus, (pt_split_t)split, k, k, &out, &valid);
    pt_corpus_close(corpus);
    return status;
}

static void fails(const char *has, const char *what)
{
    int64_t before = pt_alloc_live_bytes();
    pt_status_t status = read_all();
    const char *text = pt_error_last()->text;

    tap_ok(status == PT_CONFIG && strstr(text, has) && pt_alloc_live_bytes() == before,
           "%s: %s", what, text);
    pt_error_clear();
}

/* Four sequences of 3, 2, 0 and 4 tokens of 2 bytes, in two documents. */
static void make_base(void)
{
    static const uint64_t length[] = {3, 2, 0, 4}, offset[] = {0, 6, 10, 10},
                          first[] = {0, 2, 4};

    idx.count = bin.count = 0;
    for (int i = 0; i < 9; i++)
        put(&idx, (uint8_t) "MMIDIDX\0"[i], 1);
    put(&idx, 1, 8);
    put(&idx, 8, 1);
    put(&idx, 4, 8);
    put(&idx, 3, 8);
    for (int i = 0; i < 4; i++)
        put(&idx, length[i], 4);
    for (int i = 0; i < 4; i++)
        put(&idx, offset[i], 8);
    for (int i = 0; i < 3; i++)
        put(&idx, first[i], 8);
    for (int i = 0; i < 9; i++)
        put(&bin, 1000 + (uint64_t)i, 2);
    set_config("bad", PT_FORMAT_IDX, 4, true);
}

static void test_truncated(void)
{
    int64_t refused = 0, size;

    make_base();
    write_pair("bad");
    tap_ok(read_all() == PT_OK, "the pair to be damaged");
    size = idx.count;
    for (idx.count = 0; idx.count < size; idx.count++) {
        write_pair("bad");
        refused += read_all() == PT_CONFIG;
        pt_error_clear();
    }
    tap_ok(refused == size, "%lld of %lld truncations of the index are refused",
           (long long)refused, (long long)size);
    for (int i = 0; i < 4; i++) {
        put(&idx, 0, 1);
        write_pair("bad");
        refused += (read_all() == PT_CONFIG) == (idx.count != size + 4);
        pt_error_clear();
    }
    tap_ok(refused == size + 4,
           "bytes after its end are modes of all sequences or refused");
    put(&idx, 0, 1);
    write_pair("bad");
    fails("truncated or damaged", "one more");
    make_base();
    size = bin.count;
    for (bin.count = refused = 0; bin.count < size; bin.count++) {
        write_pair("bad");
        refused += read_all() == PT_CONFIG;
        pt_error_clear();
    }
    tap_ok(refused == size, "%lld of %lld truncations of the tokens are refused",
           (long long)refused, (long long)size);
}

static const struct {
    const char *what;
    int at, width;
    uint64_t value;
    const char *has;
} damages[] = {
    {"magic", 0, 1, 'm', "does not begin with MMIDIDX"},
    {"end of the magic", 8, 1, 1, "does not begin with MMIDIDX"},
    {"version 0", 9, 8, 0, "version 0"},
    {"version 2", 9, 8, 2, "version 2"},
    {"version in the other byte order", 9, 8, UINT64_C(1) << 56, "version 72057"},
    {"type 0", 17, 1, 0, "unknown type code 0"},
    {"type float64", 17, 1, 6, "floating-point"},
    {"type float32", 17, 1, 7, "floating-point"},
    {"type 9", 17, 1, 9, "unknown type code 9"},
    {"type 255", 17, 1, 255, "unknown type code 255"},
    {"type of 1 byte", 17, 1, 1, "begins at byte 6"},
    {"type of 4 bytes", 17, 1, 4, "begins at byte 6"},
    {"no sequences", 18, 8, 0, "no sequences"},
    {"a sequence less", 18, 8, 3, "truncated or damaged"},
    {"a sequence more", 18, 8, 5, "truncated or damaged"},
    {"2^60 sequences", 18, 8, UINT64_C(1) << 60, "truncated or damaged"},
    {"2^63 sequences", 18, 8, UINT64_C(1) << 63, "truncated or damaged"},
    {"2^64 - 1 sequences", 18, 8, UINT64_MAX, "truncated or damaged"},
    {"no document index", 26, 8, 0, "no document index"},
    {"a document less", 26, 8, 2, "truncated or damaged"},
    {"a document more", 26, 8, 4, "truncated or damaged"},
    {"2^61 documents", 26, 8, UINT64_C(1) << 61, "truncated or damaged"},
    {"2^64 - 1 documents", 26, 8, UINT64_MAX, "truncated or damaged"},
    {"a negative length", HEADER, 4, UINT32_MAX, "sequence 0 has the length -1"},
    {"the least length", HEADER + 8, 4, UINT64_C(1) << 31, "length -2147483648"},
    {"a length too small", HEADER, 4, 2, "sequence 1 begins at byte 6"},
    {"a length too large", HEADER, 4, 4, "sequence 1 begins at byte 6"},
    {"a length beyond the tokens", HEADER, 4, 10, "sequence 0 needs 10 tokens"},
    {"the largest length", HEADER + 4, 4, INT32_MAX, "needs 2147483647 tokens"},
    {"the last length too small", HEADER + 12, 4, 3, "sequences end at byte 16"},
    {"the last length too large", HEADER + 12, 4, 5, "sequence 3 needs 5 tokens"},
    {"the first offset not 0", HEADER + 16, 8, 2, "sequence 0 begins at byte 2"},
    {"a negative offset", HEADER + 24, 8, UINT64_MAX, "begins at byte -1"},
    {"an odd offset", HEADER + 24, 8, 7, "begins at byte 7"},
    {"an offset going back", HEADER + 32, 8, 4, "sequence 2 begins at byte 4"},
    {"an offset beyond the tokens", HEADER + 40, 8, 1000, "begins at byte 1000"},
    {"the largest offset", HEADER + 40, 8, INT64_MAX, "begins at byte 9223"},
    {"documents that begin late", HEADER + 48, 8, 1, "without a document"},
    {"a negative document", HEADER + 48, 8, UINT64_MAX, "is -1"},
    {"a document beyond the end", HEADER + 56, 8, 5, "is 5"},
    {"the largest document", HEADER + 56, 8, INT64_MAX, "is 9223"},
    {"documents that end early", HEADER + 64, 8, 3, "without a document"},
    {"documents going back", HEADER + 64, 8, 1, "is 1, after 2"},
};

static void test_damages(void)
{
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        make_base();
        for (int b = 0; b < damages[i].width; b++)
            idx.bytes[damages[i].at + b] = (uint8_t)(damages[i].value >> 8 * b);
        write_pair("bad");
        fails(damages[i].has, damages[i].what);
    }
}

/* Every other value of every byte of the index: refused, but for what says nothing
 * wrong: signed instead of unsigned tokens, and another border between the two
 * documents. */
static void test_bytes(void)
{
    int64_t accepted = 0, wrong = 0;

    make_base();
    for (int at = 0; at < (int)idx.count; at++) {
        uint8_t was = idx.bytes[at];
        for (int value = 0; value < 256;
             value += at == 17 || at == HEADER + 56 ? 1 : 15) {
            bool harmless = value == was || (at == 17 && value == 3) ||
                            (at == HEADER + 56 && value <= 4);
            pt_status_t status;
            idx.bytes[at] = (uint8_t)value;
            write_pair("bad");
            status = read_all();
            accepted += status == PT_OK;
            wrong += status != (harmless ? PT_OK : PT_CONFIG);
            pt_error_clear();
        }
        idx.bytes[at] = was;
    }
    tap_ok(wrong == 0 && accepted > 6, "no byte of an index is trusted");
}

static void test_vocabulary(void)
{
    make_base();
    bin.bytes[2 * 6] = 0xFF;
    bin.bytes[2 * 6 + 1] = 0xFF;
    idx.bytes[17] = 3;
    write_pair("bad");
    fails("bad.bin: token number 6 is -1, but model.vocab=200000", "a negative token");
    config.data.format = PT_FORMAT_U32;
    bin.count = 0;
    for (int i = 0; i < 9; i++)
        put(&bin, i == 8 ? VOCAB : i == 3 ? VOCAB - 1 : 5, 4);
    write_bytes("bad", bin.bytes, bin.count);
    fails("bad: token number 8 is 200000, but model.vocab=200000 allows 0 to 199999",
          "a label outside the vocabulary");
    bin.bytes[3] = 0xFF;
    write_bytes("bad", bin.bytes, bin.count);
    fails("token number 0 is 4278190085", "a token beyond 31 bits");
    write_bytes("bad", bin.bytes, 35);
    fails("bad has 35 bytes, not a multiple of the 4", "half a token");
    config.data.format = PT_FORMAT_U16;
    fails("bad has 35 bytes, not a multiple of the 2", "half a token of two bytes");
}

static void test_missing(void)
{
    set_config("absent", PT_FORMAT_IDX, 4, false);
    fails("no file absent.idx in the working directory", "no index");
    set_config("bad.bin", PT_FORMAT_IDX, 4, false);
    make_base();
    write_pair("bad");
    unlink("bad.bin");
    fails("no file bad.bin", "no tokens");
}

int main(void)
{
    test_truncated();
    test_damages();
    test_bytes();
    test_vocabulary();
    test_missing();
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
