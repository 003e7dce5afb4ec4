/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens against a brute-force reading, and files of another program. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_reference.h"

static const int widths[] = {0, 1, 1, 2, 4, 8, 0, 0, 2};

static void add_token(int64_t id, int width)
{
    put(&bin, (uint64_t)id, width);
    expect_token(id);
}

/* Draws sequences and documents, some of them empty, and makes both images of them. */
static void make_pair(int code, int64_t sequences, bool with_modes)
{
    static const int64_t most[] = {0, 256, 128, 32768, VOCAB, VOCAB, 0, 0, 65536};
    int64_t length[64], first[256] = {0}, numbers = 1, before = reference.tokens;
    int64_t others = reference.documents;

    idx.count = bin.count = 0;
    reference.files++;
    reference.documents++;
    for (int64_t s = 0; s < sequences; s++) {
        bool ends = s + 1 == sequences || draw(3) == 0;
        length[s] = draw(4) == 0 ? 0 : 1 + (int64_t)draw(9);
        if (s == 0)
            length[s] = 40;
        for (int64_t i = 0; i < length[s]; i++)
            add_token((int64_t)draw((uint64_t)most[code]), widths[code]);
        for (int repeat = ends ? 1 + (draw(5) == 0) : 0; repeat > 0; repeat--)
            first[numbers++] = s + 1;
        if (ends && reference.tokens > before) {
            reference.documents++;
            before = reference.tokens;
        }
    }
    reference.documents -= reference.tokens == before; /* none began after the last */
    reference.empty += numbers - 1 - (reference.documents - others);
    for (int i = 0; i < 9; i++)
        put(&idx, (uint8_t) "MMIDIDX\0"[i], 1);
    put(&idx, 1, 8);
    put(&idx, (uint64_t)code, 1);
    put(&idx, (uint64_t)sequences, 8);
    put(&idx, (uint64_t)numbers, 8);
    for (int64_t s = 0; s < sequences; s++)
        put(&idx, (uint64_t)length[s], 4);
    for (int64_t s = 0, at = 0; s < sequences; at += length[s++] * widths[code])
        put(&idx, (uint64_t)at, 8);
    for (int64_t i = 0; i < numbers; i++)
        put(&idx, (uint64_t)first[i], 8);
    for (int64_t s = 0; with_modes && s < sequences; s++)
        put(&idx, draw(2), 1);
}

static void test_types(void)
{
    static const int codes[] = {1, 2, 3, 4, 5, 8};

    for (int c = 0; c < 6; c++) {
        int64_t wrong = 0;
        for (int round = 0; round < 40; round++) {
            expect_nothing();
            make_pair(codes[c], 1 + (int64_t)draw(60), draw(2));
            write_pair("a");
            make_pair(codes[draw(6)], 1 + (int64_t)draw(3), draw(2));
            write_pair("b.idx");
            make_pair(codes[draw(6)], 1 + (int64_t)draw(60), draw(2));
            write_pair("c");
            set_config("a.idx, b.idx.bin,c", PT_FORMAT_IDX, 1 + (int64_t)draw(LONGEST),
                       draw(4) > 0);
            wrong += check_corpus(VOCAB);
        }
        tap_ok(wrong == 0, "40 corpora of three pairs, the first of type %d", codes[c]);
    }
}

/* More numbers than are read of a column at once. */
static void test_large(void)
{
    enum { MANY = 8499 };
    static image_t lengths, offsets, numbers;
    int64_t wrong = 0;

    expect_nothing();
    idx.count = bin.count = lengths.count = offsets.count = numbers.count = 0;
    reference.files++;
    put(&numbers, 0, 8);
    for (int64_t s = 0; s < MANY; s++) {
        put(&offsets, (uint64_t)bin.count, 8);
        reference.documents += s % 3 == 0;
        add_token((int64_t)draw(65536), 2);
        put(&lengths, 1, 4);
        if (s % 3 == 2)
            put(&numbers, (uint64_t)s + 1, 8);
    }
    for (int i = 0; i < 9; i++)
        put(&idx, (uint8_t) "MMIDIDX\0"[i], 1);
    put(&idx, 1, 8);
    put(&idx, 8, 1);
    put(&idx, MANY, 8);
    put(&idx, MANY / 3 + 1, 8);
    memcpy(idx.bytes + idx.count, lengths.bytes, (size_t)lengths.count);
    idx.count += lengths.count;
    memcpy(idx.bytes + idx.count, offsets.bytes, (size_t)offsets.count);
    idx.count += offsets.count;
    memcpy(idx.bytes + idx.count, numbers.bytes, (size_t)numbers.count);
    idx.count += numbers.count;
    write_pair("large");
    set_config("large", PT_FORMAT_IDX, 7, true);
    wrong += check_corpus(VOCAB);
    tap_ok(wrong == 0 && reference.documents == MANY / 3, "an index read in pieces");
}

static void test_plain(int format, int width)
{
    int64_t wrong = 0;

    for (int round = 0; round < 40; round++) {
        expect_nothing();
        for (int f = 0; f < 3; f++) {
            char name[2] = {(char)('a' + f), '\0'};
            int64_t count = (f == 0 ? 40 : 1) + (int64_t)draw(40);
            bin.count = 0;
            reference.files++;
            reference.documents++;
            while (count-- > 0)
                add_token((int64_t)draw(width == 2 ? 65536 : VOCAB), width);
            write_bytes(name, bin.bytes, bin.count);
        }
        set_config("a,b,c", format, 1 + (int64_t)draw(LONGEST), draw(2));
        wrong += check_corpus(VOCAB);
    }
    tap_ok(wrong == 0, "40 corpora of three files of %d-bit tokens", 8 * width);
}

/* ---- Files of another program ---- */

static void test_golden(const char *name)
{
    const char *source = getenv("PENTA_SRCDIR");
    char path[1024];
    FILE *file;
    int64_t wrong = 0, before;
    int c;

    expect_nothing();
    reference.files = 1;
    snprintf(path, sizeof path, "%s/regression/golden/corpus/%s.txt",
             source ? source : ".", name);
    file = fopen(path, "r");
    if (!tap_ok(file != NULL, "%s", path))
        return;
    for (before = 0; (c = fgetc(file)) != EOF && reference.tokens < ROOM;
         before = reference.tokens) {
        while (c != '\n' && c != EOF) {
            int64_t id = 0;
            for (; c >= '0' && c <= '9'; c = fgetc(file))
                id = id * 10 + (c - '0');
            if (reference.tokens == before)
                reference.documents++;
            expect_token(id);
            c = c == ' ' ? fgetc(file) : c;
        }
        reference.empty += reference.tokens == before;
    }
    fclose(file);
    path[strlen(path) - 4] = '\0';
    for (int64_t T = 1; T <= LONGEST; T++)
        for (int mask = 0; mask < 2; mask++) {
            set_config(path, PT_FORMAT_IDX, T, mask);
            wrong += check_corpus(VOCAB);
        }
    tap_ok(reference.tokens > 50 && reference.documents > 3 && wrong == 0,
           "%s as Megatron Core wrote it: %lld tokens, %lld documents", name,
           (long long)reference.tokens, (long long)reference.documents);
}

int main(void)
{
    test_types();
    test_large();
    test_plain(PT_FORMAT_U16, 2);
    test_plain(PT_FORMAT_U32, 4);
    test_golden("u16");
    test_golden("i32modes");
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
