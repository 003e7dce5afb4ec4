/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The loss scale of fp16 against a table written by hand from its rule
 * (include/penta/optim/optim.h): starts at 65536; 1000 clean steps double it and
 * forgive; the second overflow and each one after it halve it; nothing below 1, nothing
 * above 2^40. A fixed one gives up after 20 overflows in a row. */
#include "regression/tap.h"

#include "penta/optim/optim.h"

/* `times` steps, with or without overflow, and what is there afterwards. */
typedef struct row {
    int times;
    bool overflow;
    double value;
    int64_t good_steps, hysteresis;
    bool hope;
} row_t;

static const row_t dynamic[] = {
    {1, false, 65536, 1, 2, true},
    {998, false, 65536, 999, 2, true},
    {1, false, 131072, 0, 2, true}, /* the 1000th */
    {999, false, 131072, 999, 2, true},
    {1, true, 131072, 0, 1, true}, /* forgiven, but the count begins anew */
    {999, false, 131072, 999, 1, true},
    {1, true, 65536, 0, 0, true}, /* the second since the last doubling */
    {1, true, 32768, 0, 0, true}, /* and each one after it */
    {5, false, 32768, 5, 0, true},
    {1, true, 16384, 0, 0, true},
    {1000, false, 32768, 0, 2, true}, /* doubled: forgiving again */
    {2, true, 16384, 0, 0, true},
    {13, true, 2, 0, 0, true},
    {1, true, 1, 0, 0, true},
    {1, true, 1, 0, 0, false}, /* overflow at 1 */
};

static const row_t at_start[] = {
    {1, true, 65536, 0, 1, true},
    {1, true, 32768, 0, 0, true},
};

static const row_t fixed[] = {
    {5000, false, 1024, 5000, 20, true}, {19, true, 1024, 0, 1, true},
    {1, false, 1024, 1, 20, true}, /* one clean step forgives all */
    {19, true, 1024, 0, 1, true},        {1, true, 1024, 0, 0, false},
};

static void test_rows(const char *name, pt_loss_scale_t scale, const row_t *rows,
                      int count)
{
    for (int i = 0; i < count; i++) {
        bool hope = true;

        for (int k = 0; k < rows[i].times; k++)
            hope = pt_loss_scale_next(&scale, rows[i].overflow) && hope;
        tap_ok(scale.value == rows[i].value && scale.good_steps == rows[i].good_steps &&
                   scale.hysteresis == rows[i].hysteresis && hope == rows[i].hope,
               "%s, row %d: %.0f, %d clean, %d left", name, i, scale.value,
               (int)scale.good_steps, (int)scale.hysteresis);
    }
}

static void test_bounds(void)
{
    pt_loss_scale_t scale = pt_loss_scale_start(0);

    for (int i = 0; i < 40 * 1000; i++)
        (void)pt_loss_scale_next(&scale, false);
    tap_ok(scale.value == 1099511627776.0, "never above 2^40");
}

static bool is(pt_loss_scale_t a, double value, int64_t good_steps, int64_t hysteresis)
{
    return a.value == value && a.good_steps == good_steps && a.hysteresis == hysteresis;
}

static void test_resume(void)
{
    pt_loss_scale_t saved = {.value = 4096, .good_steps = 17, .hysteresis = 1};

    tap_ok(is(pt_loss_scale_resume(0, saved), 4096, 17, 1), "dynamic goes on");
    tap_ok(is(pt_loss_scale_resume(4096, saved), 4096, 17, 1),
           "so does a fixed one of the same value");
    tap_ok(is(pt_loss_scale_resume(512, saved), 512, 0, 20),
           "a fixed one of another value begins");
    saved.hysteresis = 20;
    tap_ok(is(pt_loss_scale_resume(0, saved), 4096, 17, 2),
           "dynamic after fixed: the patience of dynamic");
    saved.value = 3000;
    tap_ok(is(pt_loss_scale_resume(0, saved), 65536, 0, 2),
           "no power of two: begins anew");
    saved.value = 0.5;
    tap_ok(is(pt_loss_scale_resume(0, saved), 65536, 0, 2), "nor one below 1");
}

int main(void)
{
    test_rows("dynamic", pt_loss_scale_start(0), dynamic,
              sizeof dynamic / sizeof dynamic[0]);
    test_rows("at the start", pt_loss_scale_start(0), at_start,
              sizeof at_start / sizeof at_start[0]);
    test_rows("fixed", pt_loss_scale_start(1024), fixed, sizeof fixed / sizeof fixed[0]);
    test_bounds();
    test_resume();
    return tap_done();
}
