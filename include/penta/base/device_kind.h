/* SPDX-License-Identifier: Apache-2.0 */
/* device_kind.h — kinds of devices and instruction sets (layer: base).
 *
 * Each list defines the enumerators and, in the same order, the values of run.device
 * and run.isa. */
#ifndef PENTA_DEVICE_KIND_H
#define PENTA_DEVICE_KIND_H

#define PT_DEVICE_KINDS(X)                                                             \
    X(AUTO, "auto") X(CPU, "cpu") X(CUDA, "cuda") X(SHADOW, "shadow")
/* Microarchitecture levels of x86-64, lowest first. */
#define PT_ISA_LEVELS(X) X(AUTO, "auto") X(BASE, "base") X(V3, "v3") X(V4, "v4")

/* DRY only counts; no option selects it. */
#define PT_DEVICE_KIND(name, word) PT_DEVICE_##name,
typedef enum pt_device_kind {
    PT_DEVICE_KINDS(PT_DEVICE_KIND) PT_DEVICE_DRY,
    PT_DEVICE_KINDS_COUNT
} pt_device_kind_t;
#undef PT_DEVICE_KIND

#define PT_ISA_LEVEL(name, word) PT_ISA_##name,
typedef enum pt_isa { PT_ISA_LEVELS(PT_ISA_LEVEL) PT_ISA_COUNT } pt_isa_t;
#undef PT_ISA_LEVEL

#endif
