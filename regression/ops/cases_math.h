/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of test_ops.c beside the op table: accuracy of exp and log over dense sweeps,
 * seen through ops that are nothing else at chosen operands. */

enum { SWEEP = 1 << 16 };

/* Distance in units of the last place of `want` in type T, subnormal spacing at
 * least. */
static double ulps(const ot_t *t, double got, long double want)
{
    bool wide = t->type == PT_F64;
    int exponent, least = wide ? -1074 : -149;
    if (isinf(got) && fabsl(want) > (wide ? 0x1.fffffffffffffp1023L : 0x1.fffffep127L))
        return 0;
    (void)frexpl(want, &exponent);
    exponent -= wide ? 53 : 24;
    return (double)(fabsl(got - want) / ldexpl(1, exponent < least ? least : exponent));
}

/* exp(x) = logits of cross_entropy_bwd at maximum 0, sum 1, scale 1, no label here. */
static double exp_sweep(ot_t *t, double low, double high, const double *special)
{
    ot_tensor_t *x = OT_DENSE(t, t->type, OT_ZERO, 1, SWEEP);
    ot_tensor_t *in = OT_DENSE(t, t->type, OT_ZERO, 1, SWEEP);
    ot_tensor_t *label = OT_DENSE(t, PT_I32, OT_ZERO, 1);
    ot_tensor_t *mask = OT_DENSE(t, PT_U8, OT_ZERO, 1);
    ot_tensor_t *maximum = OT_DENSE(t, t->type, OT_ZERO, 1);
    ot_tensor_t *sum = OT_DENSE(t, t->type, OT_ZERO, 1);
    double worst = 0;
    for (int64_t e = 0; e < SWEEP; e++)
        ot_set(x, e,
               special && e < 6 ? special[e] : low + (high - low) * (double)e / SWEEP);
    for (int64_t e = 0; e < SWEEP; e++)
        ot_set(in, e, ot_get(x, e));
    ot_set(label, 0, -1);
    ot_set(mask, 0, 1);
    ot_set(sum, 0, 1);
    ot_push(t, x);
    ot_push(t, label);
    ot_push(t, mask);
    ot_push(t, sum);
    OT_RUN(t, pt_op_cross_entropy_bwd(
                  t->device, t->stream,
                  &(pt_op_cross_entropy_bwd_t){x->x, label->x, mask->x, maximum->x,
                                               sum->x, 0, SWEEP, 1}));
    ot_pull(t, x);
    for (int64_t e = special ? 6 : 0; e < SWEEP; e++) {
        double error = ulps(t, ot_get(x, e), expl(ot_get(in, e)));
        worst = error > worst ? error : worst;
    }
    for (int64_t e = 0; special && e < 6; e++) {
        double got = ot_get(x, e), want = exp(special[e]);
        if (isnan(want) ? !isnan(got) : got != want)
            ot_fail(t, "exp(%g) is %g", special[e], got);
    }
    ot_reset(t);
    return worst;
}

static double log_sweep(ot_t *t, double low, double high)
{
    ot_tensor_t *sum = OT_DENSE(t, t->type, OT_ZERO, SWEEP);
    ot_tensor_t *zero = OT_DENSE(t, t->type, OT_ZERO, SWEEP);
    ot_tensor_t *mask = OT_DENSE(t, PT_U8, OT_ZERO, SWEEP);
    ot_tensor_t *loss = OT_DENSE(t, t->type, OT_POISON, SWEEP);
    double worst = 0;
    for (int64_t e = 0; e < SWEEP; e++) {
        ot_set(sum, e, exp(low + (high - low) * (double)e / SWEEP));
        ot_set(mask, e, 1);
    }
    ot_push(t, sum);
    ot_push(t, mask);
    OT_RUN(t, pt_op_cross_entropy_fwd(t->device, t->stream,
                                      &(pt_op_cross_entropy_fwd_t){
                                          zero->x, sum->x, zero->x, mask->x, loss->x}));
    ot_pull(t, loss);
    for (int64_t e = 0; e < SWEEP; e++) {
        double error = ulps(t, ot_get(loss, e), logl(ot_get(sum, e)));
        worst = error > worst ? error : worst;
    }
    ot_reset(t);
    return worst;
}

static void test_functions(ot_t *t, const char *isa)
{
    static const double special[] = {INFINITY, -INFINITY, NAN, 0, 1e300, -1e300};
    bool wide = t->type == PT_F64;
    double least = wide ? -745.2 : -104, most = wide ? 709.9 : 88.8;
    double worst = exp_sweep(t, least, most, special),
           near_zero = exp_sweep(t, -1, 1, NULL);
    tap_ok(t->ok && worst <= 2 && near_zero <= 2,
           "exp %s %s: at most %.3f ulp, %.3f in [-1, 1] %s", isa,
           wide ? "fp64" : "fp32", worst, near_zero, t->why);
    worst = log_sweep(t, wide ? -740 : -100, wide ? 709 : 88);
    near_zero = log_sweep(t, -0.8, 0.8);
    tap_ok(t->ok && worst <= 2 && near_zero <= 2,
           "log %s %s: at most %.3f ulp, %.3f in [0.45, 2.2] %s", isa,
           wide ? "fp64" : "fp32", worst, near_zero, t->why);
}
