/* SPDX-License-Identifier: Apache-2.0 */
/* bits.h — conversion between floating-point numbers and their bits (layer: base;
 * inline, for kernels). */
#ifndef PENTA_BITS_H
#define PENTA_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t pt_bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float pt_from_bits_f32(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t pt_bits_of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double pt_from_bits_f64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
