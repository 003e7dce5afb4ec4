/* TEST np=1 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Logits from the cache of keys and values are those of a pass over all tokens, however
 * the tokens come: prompts of different lengths, a token at a time, several at once. */
#include "regression/train/rig_step.h"

enum {
    SEQUENCES = 4,
    LENGTH = 141, /* more than two blocks of keys */
    ROWS = SEQUENCES * LENGTH,
    VOCAB = 61
};

static const pt_arch_t llama = {RIG_LLAMA, .layers = 3, .vocab = VOCAB,
                                .max_positions = LENGTH, .rotary_fraction = 1};
static const pt_arch_t gpt2 = {RIG_GPT2, .layers = 3, .vocab = VOCAB,
                               .max_positions = LENGTH + 2};

static const int64_t prompt[SEQUENCES] = {1, 70, 9, 64}, slot[SEQUENCES] = {2, 0, 3, 1};
static int32_t token[ROWS];
static double whole[ROWS][VOCAB]; /* without cache */

/* What a model is asked with, one call after the other. */
typedef struct asker {
    rig_t rig;
    pt_tensor_t logits; /* [ROWS, VOCAB] */
    double worst, largest;
} asker_t;

static pt_status_t read_logits(asker_t *asker, int64_t rows, double (*out)[VOCAB])
{
    return rig_read(&asker->rig, pt_tensor_slice(asker->logits, 0, 0, rows), &out[0][0]);
}

static pt_status_t without_cache(asker_t *asker)
{
    for (int64_t s = 0; s < SEQUENCES; s++) {
        pt_batch_view_t view = rig_view(&asker->rig, false, s, 1);

        view.training = false;
        PT_TRY(pt_model_logits(asker->rig.session.model, &view, 0,
                               pt_tensor_slice(asker->logits, 0, 0, LENGTH),
                               asker->rig.world->machine.stream));
        PT_TRY(read_logits(asker, LENGTH, &whole[s * LENGTH]));
    }
    return PT_OK;
}

/* `count` tokens from place first[i] of each of `sequences`, read from host arrays. */
static pt_status_t view_of(asker_t *asker, const pt_decode_t *decode, int64_t sequences,
                           const int64_t *which, int64_t count, pt_batch_view_t *view)
{
    int32_t tokens[ROWS], places[ROWS];
    int64_t rows = sequences * count;

    *view = rig_view(&asker->rig, false, 0, 1);
    view->token = pt_tensor_slice(asker->rig.batch.token, 0, 0, rows);
    view->label = view->token;
    view->place = pt_tensor_slice(asker->rig.batch.place, 0, 0, rows);
    view->position = pt_tensor_slice(asker->rig.batch.position, 0, 0, rows);
    view->sample = pt_tensor_slice(asker->rig.batch.sample, 0, 0, rows);
    view->mask = pt_tensor_slice(asker->rig.batch.mask, 0, 0, rows);
    view->sequences = sequences;
    view->training = false;
    for (int64_t i = 0; i < rows; i++) {
        places[i] = (int32_t)(decode->first[i / count] + i % count);
        tokens[i] = token[which[i / count] * LENGTH + places[i]];
    }
    PT_TRY(rig_copy(asker->rig.world, view->token, tokens, true));
    PT_TRY(rig_copy(asker->rig.world, view->place, places, true));
    return rig_copy(asker->rig.world, view->position, places, true);
}

/* Asks, and compares all rows. */
static pt_status_t ask(asker_t *asker, const int64_t *which, const int64_t *first,
                       int64_t sequences, int64_t count)
{
    static double logits[ROWS][VOCAB];
    int64_t slots[SEQUENCES], rows = sequences * count;
    pt_decode_t decode = {slots, first};
    pt_batch_view_t view;

    for (int64_t i = 0; i < sequences; i++)
        slots[i] = slot[which[i]];
    PT_TRY(view_of(asker, &decode, sequences, which, count, &view));
    PT_TRY(pt_model_decode(asker->rig.session.model, &view, &decode, 0,
                           pt_tensor_slice(asker->logits, 0, 0, rows),
                           asker->rig.world->machine.stream));
    PT_TRY(read_logits(asker, rows, logits));
    for (int64_t r = 0; r < rows; r++)
        for (int v = 0; v < VOCAB; v++) {
            int64_t place = first[r / count] + r % count;
            double expected = whole[which[r / count] * LENGTH + place][v];

            asker->worst = fmax(asker->worst, fabs(logits[r][v] - expected));
            asker->largest = fmax(asker->largest, fabs(expected));
        }
    return PT_OK;
}

/* From prompts of different lengths on: `count` more tokens of each sequence that is
 * not yet at its end. */
static pt_status_t advance(asker_t *asker, int64_t length[SEQUENCES], int64_t count,
                           bool *more)
{
    int64_t which[SEQUENCES], first[SEQUENCES], sequences = 0;

    for (int64_t s = SEQUENCES - 1; s >= 0; s--)
        if (length[s] + count <= LENGTH) {
            which[sequences] = s;
            first[sequences++] = length[s];
            length[s] += count;
        }
    *more = sequences > 0;
    return *more ? ask(asker, which, first, sequences, count) : PT_OK;
}

static pt_status_t with_cache(asker_t *asker)
{
    int64_t length[SEQUENCES], zero = 0;
    bool more = true;

    for (int64_t s = 0; s < SEQUENCES; s++) {
        length[s] = prompt[s];
        PT_TRY(ask(asker, &s, &zero, 1, prompt[s]));
    }
    PT_TRY(advance(asker, length, 5, &more));
    while (more)
        PT_TRY(advance(asker, length, 1, &more));
    /* A slot begins anew. */
    for (int64_t s = 0; s < 2; s++) {
        PT_TRY(ask(asker, &s, &zero, 1, prompt[s]));
        length[s] = prompt[s];
        PT_TRY(ask(asker, &s, &length[s], 1, 1));
    }
    return PT_OK;
}

static void make_tokens(void)
{
    for (int i = 0; i < ROWS; i++)
        token[i] = (int32_t)(pt_mix64((uint64_t)i) % VOCAB);
}

static pt_status_t run(asker_t *asker, rig_world_t *world, const pt_arch_t *arch)
{
    rig_choice_t choice = {.micro_batch = SEQUENCES, .inference = true, .cache = true};
    rig_data_t data = {.token = token, .label = token};
    pt_dtype_t full = pt_dtype_accumulator(arch->dtype);
    int64_t bytes = ROWS * VOCAB * (int64_t)pt_dtype_size(full);
    void *memory;
    pt_status_t status;

    asker->rig = (rig_t){.arch = *arch, .sequences = SEQUENCES, .length = LENGTH};
    PT_TRY(rig_create(&asker->rig, world, NULL, &choice));
    PT_TRY(rig_init(&asker->rig, 11));
    PT_TRY(rig_load(&asker->rig, &data));
    PT_TRY(pt_device_alloc(world->machine.device, PT_MEMORY_DEVICE, "logits", bytes,
                           &memory));
    asker->logits = pt_tensor_2d(memory, full, PT_MEMORY_DEVICE, ROWS, VOCAB);
    status = without_cache(asker);
    if (status == PT_OK)
        status = with_cache(asker);
    pt_device_free(world->machine.device, PT_MEMORY_DEVICE, memory, bytes);
    return status;
}

static void test(rig_world_t *world, pt_arch_t arch, bool qk_norm, const char *name)
{
    /* Of the largest logit. In 16 bits a GEMM of other rows may round a few numbers the
     * other way: some last places of theirs. */
    static const struct {
        pt_dtype_t dtype;
        double bound;
    } types[] = {
        {PT_F64, 1e-11}, {PT_F32, 1e-5}, {PT_BF16, 6.0 / 256}, {PT_F16, 6.0 / 2048}};

    arch.qk_norm = qk_norm;
    for (int t = 0; t < 4; t++) {
        asker_t asker = {.worst = 0};
        double bound = types[t].bound;

        arch.dtype = types[t].dtype;
        pt_status_t status = run(&asker, world, &arch);
        rig_destroy(&asker.rig);
        tap_ok(status == PT_OK && asker.largest > 0.5 &&
                   asker.worst <= bound * fmax(asker.largest, 1),
               "%s %s: logits with cache differ by %.1e of %.1f", name,
               pt_dtype_name(arch.dtype), asker.worst, asker.largest);
    }
}

static void test_all(rig_world_t *world)
{
    make_tokens();
    test(world, llama, false, "llama");
    test(world, llama, true, "qwen3");
    test(world, gpt2, false, "gpt2");
}

int main(int argc, char **argv)
{
    return rig_main(&argc, &argv, test_all);
}
