/* SPDX-License-Identifier: Apache-2.0 */
/* A small checkpoint for tests of readers: one rank, three tensors. */
#ifndef PT_REGRESSION_CHECKPOINT_FILE_H
#define PT_REGRESSION_CHECKPOINT_FILE_H

#include "penta/io/checkpoint.h"
#include "penta/base/rng.h"

#include <stdio.h>
#include <string.h>

enum { SMALL_TENSORS = 3, SMALL_ELEMENTS = 60 };

static const pt_checkpoint_tensor_t small_tensors[SMALL_TENSORS] = {
    {"model", "w", 0, PT_F32, 2, {6, 10, 0}},
    {"model", "b", 0, PT_F64, 1, {7, 0, 0}},
    {"optimizer/exp_avg", "w", 0, PT_F32, 3, {3, 4, 5}},
};

static int64_t small_elements(int tensor)
{
    static const int64_t n[SMALL_TENSORS] = {60, 7, 60};
    return n[tensor];
}

/* Element k of tensor i; all different, exact in fp32. */
static double small_value(int i, int64_t k)
{
    return (double)(1000 * i + k) + 0.25;
}

static pt_engine_t *small_engine(void)
{
    static pt_transport_t *transport;
    pt_engine_options_t options = {.gpu_direct = PT_GPU_DIRECT_OFF};
    pt_engine_t *engine = NULL;

    if (pt_transport_open_serial(&transport) == PT_OK)
        (void)pt_engine_create(transport, &options, &engine);
    return engine;
}

/* `change` (if any) is added to element 13 of tensor 0. */
static pt_status_t small_save(pt_comm_t *comm, const char *path, const char *config,
                              double change)
{
    pt_checkpoint_header_t header = {.step = 5,
                                     .samples = 10,
                                     .tokens = 20,
                                     .adam_t = 5,
                                     .decay_steps = 9,
                                     .loss = 1.5,
                                     .loss_scale = 1,
                                     .precision = "fp32",
                                     .build = "build",
                                     .layout = "layout"};
    pt_checkpoint_tensor_t tensors[SMALL_TENSORS];
    pt_checkpoint_writer_t *writer;
    pt_status_t status = PT_OK;
    double x64[SMALL_ELEMENTS];
    float x32[SMALL_ELEMENTS];

    memcpy(tensors, small_tensors, sizeof tensors);
    tensors[0].id = pt_name_id("w");
    tensors[1].id = pt_name_id("b");
    tensors[2].id = pt_name_id("optimizer/exp_avg/w");
    PT_TRY(pt_checkpoint_create(comm, path, tensors, SMALL_TENSORS, config, "0 host\n",
                                &writer));
    for (int i = 0; i < SMALL_TENSORS && status == PT_OK; i++) {
        for (int64_t k = 0; k < small_elements(i); k++) {
            x64[k] = small_value(i, k) + (i == 0 && k == 13 ? change : 0);
            x32[k] = (float)x64[k];
        }
        pt_hyperslab_t all = pt_hyperslab_whole(tensors[i].ndim, tensors[i].shape);
        status = pt_checkpoint_write(writer, i, &all,
                                     tensors[i].dtype == PT_F64 ? (void *)x64 : x32);
    }
    return pt_checkpoint_publish(writer, status, &header, 2);
}

#endif
