/* TEST backend=cpu,shadow timeout=400 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of ops.def against its formula, on every level this machine has, in every
 * type: a row without a case does not compile. Errors are in units of the eps of A,
 * relative to the size of the terms, beyond one rounding to the type of the result;
 * cases state their bounds. */
#include "regression/ops/ops_test.h"

#include "regression/ops/cases_elementwise.h"

#include "regression/ops/cases_activation.h"
#include "regression/ops/cases_attention.h"
#include "regression/ops/cases_loss.h"
#include "regression/ops/cases_math.h"
#include "regression/ops/cases_norm.h"
#include "regression/ops/cases_sum.h"

static const struct {
    const char *name;
    void (*run)(ot_t *t);
} cases[PT_OP_COUNT] = {
#define PT_OP(name, dtypes, flops, bytes, workspace) {#name, test_##name},
#include "penta/ops/ops.def"
#undef PT_OP
};

static ot_t state;

static void begin(ot_t *t, pt_dtype_t type)
{
    t->type = t->out = type;
    t->sum = pt_dtype_accumulator(type);
    t->eps = type == PT_F64 ? 0x1p-52 : 0x1p-23;
    t->coarse = type == PT_BF16 ? 0x1p16 : type == PT_F16 ? 0x1p13 : 1;
    t->pad = 0;
    t->seed = t->hash = 0;
    t->ok = true;
    t->worst = 0;
    t->why[0] = '\0';
}

/* All cases of one op, dense and with strided rows, outputs in T and in A. */
static void run_cases(ot_t *t, int op, pt_dtype_t type)
{
    begin(t, type);
    for (t->pad = 0; t->pad < 4; t->pad += 3) {
        cases[op].run(t);
        ot_reset(t);
    }
    if (t->sum == type)
        return;
    t->out = t->sum;
    cases[op].run(t);
    ot_reset(t);
}

static const pt_dtype_t types[] = {PT_F64, PT_F32, PT_BF16, PT_F16};
enum { TYPES = sizeof types / sizeof types[0] };

/* Leaves a hash of all results in `hashes`. */
static void run_level(ot_t *t, pt_isa_t isa, uint64_t hashes[TYPES][PT_OP_COUNT])
{
    const char *level = pt_isa_name(isa);
    ot_open(t, isa, 1);
    for (int i = 0; i < TYPES; i++) {
        for (int op = 0; op < PT_OP_COUNT; op++) {
            run_cases(t, op, types[i]);
            hashes[i][op] = t->hash;
            tap_ok(t->ok, "%s %s %s: largest error %.2f eps %s", cases[op].name, level,
                   pt_dtype_name(types[i]), t->worst, t->why);
            if (t->device->counts[op].calls == 0)
                tap_ok(0, "%s was called", cases[op].name);
        }
        begin(t, types[i]);
        if (t->sum == types[i])
            test_functions(t, level);
    }
    ot_close(t);
}

/* Same bits with two threads; BLAS (gemm) does not promise that. */
static void run_threads(ot_t *t, uint64_t hashes[TYPES][PT_OP_COUNT])
{
    ot_open(t, PT_ISA_AUTO, 2);
    for (int i = 1; i < TYPES; i++)
        for (int op = 0; op < PT_OP_COUNT; op++) {
            run_cases(t, op, types[i]);
            tap_ok(t->ok && (op == PT_OP_gemm || t->hash == hashes[i][op]),
                   "%s %s: two threads, the bits of one %s", cases[op].name,
                   pt_dtype_name(types[i]), t->why);
        }
    ot_close(t);
}

int main(void)
{
    uint64_t hashes[TYPES][PT_OP_COUNT];
    for (pt_isa_t isa = PT_ISA_BASE; isa < PT_ISA_COUNT; isa++)
        if (pt_cpu_kernels(isa))
            run_level(&state, isa, hashes);
        else
            tap_skip(pt_isa_name(isa));
    run_threads(&state, hashes);
    return tap_done();
}
