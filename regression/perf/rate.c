/* SPDX-License-Identifier: Apache-2.0 */
/* Rate of plain cblas_sgemm over the GEMM shapes of one training step of a GPT-2-like
 * model: what a step could reach if it did nothing else.
 *
 * usage: rate TOKENS HIDDEN FFN VOCAB LAYERS TRIES      prints GFLOP/s of the best try
 *
 * Weights, gradients and activations have the sizes and places they have in a step:
 * nothing is met in the cache that a step would not meet there. A product is one call:
 * forward NT, of the input NN, of the weight TN added to what is there. */
#include "pt_autoconf.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include PT_CBLAS_HEADER

typedef struct linear {
    long in, out;
    float *weight, *grad, *x, *dx, *y;
} linear_t;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *numbers(long count)
{
    float *x = malloc((size_t)count * sizeof *x);
    if (!x) {
        fprintf(stderr, "rate: no memory for %ld numbers\n", count);
        exit(1);
    }
    for (long i = 0; i < count; i++)
        x[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
    return x;
}

static linear_t make(long tokens, long in, long out)
{
    return (linear_t){in,
                      out,
                      numbers(in * out),
                      numbers(in * out),
                      numbers(tokens * in),
                      numbers(tokens * in),
                      numbers(tokens * out)};
}

static void forward(const linear_t *l, int n)
{
    int in = (int)l->in, out = (int)l->out;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, out, in, 1, l->x, in,
                l->weight, in, 0, l->y, out);
}

static void backward(const linear_t *l, int n)
{
    int in = (int)l->in, out = (int)l->out;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, in, out, 1, l->y, out,
                l->weight, in, 0, l->dx, in);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, n, 1, l->y, out, l->x,
                in, 1, l->grad, in);
}

int main(int argc, char **argv)
{
    long a[6];
    if (argc != 7)
        return fprintf(stderr, "usage: rate TOKENS HIDDEN FFN VOCAB LAYERS TRIES\n"), 2;
    for (int i = 0; i < 6; i++)
        if ((a[i] = strtol(argv[i + 1], NULL, 10)) < 1)
            return fprintf(stderr, "rate: %s is no count\n", argv[i + 1]), 2;
    long tokens = a[0], hidden = a[1], ffn = a[2], count = 4 * a[4] + 1;
    linear_t *linear = malloc((size_t)count * sizeof *linear);
    double flops = 0, best = 0;
    for (long i = 0; i + 1 < count; i += 4) {
        linear[i] = make(tokens, hidden, 3 * hidden);
        linear[i + 1] = make(tokens, hidden, hidden);
        linear[i + 2] = make(tokens, hidden, ffn);
        linear[i + 3] = make(tokens, ffn, hidden);
    }
    linear[count - 1] = make(tokens, hidden, a[3]);
    for (long i = 0; i < count; i++)
        flops += 6.0 * (double)(tokens * linear[i].in * linear[i].out);
    for (long try = 0; try < a[5]; try++) {
        double start = seconds();
        for (long i = 0; i < count; i++)
            forward(&linear[i], (int)tokens);
        for (long i = count; i-- > 0;)
            backward(&linear[i], (int)tokens);
        double rate = flops / (seconds() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    printf("%.2f\n", best);
    return 0;
}
