/* SPDX-License-Identifier: Apache-2.0 */
/* program.h — a block of the model as a table of nodes (private to src/model).
 *
 * A block (embedding, attention, ffn, head) is a program: a list of nodes. Each node has a kind (norm, linear,
 * attend, …), reads and writes tensors of the block, and may use rows of the parameter table. A kind implements
 * three passes, once for all blocks:
 *
 *   forward   computes the outputs y from the inputs x
 *   input     computes the input gradients dx from the output gradients dy
 *   weight    adds to the gradients of the parameters
 *
 * It declares which operands each pass reads and writes. From these declarations follow the order in which the
 * passes run, the lifetime of each tensor and therefore its memory (region.c), what is recomputed, and whether
 * an input gradient is written or accumulated. The same declarations are checked: reading a tensor that was
 * never written, a gradient that has been overwritten, or a partial sum as if it were complete is an error. A new
 * layer is a new table; a new parallel axis adds nodes to the tables.
 *
 * The `run` function of a node that communicates only begins the transfer; `end` completes it just before the first
 * step that reads its output. When weight passes directly follow input passes, weight steps whose operands are
 * ready are scheduled in between. All orders are fixed when the model is planned and are the same on all ranks. */
#ifndef PT_MODEL_PROGRAM_H
#define PT_MODEL_PROGRAM_H

#include "penta/model/arch.h"
#include "penta/parallel/units.h"

typedef struct pt_call pt_call_t;
typedef struct pt_node pt_node_t;
typedef struct pt_program pt_program_t;

typedef enum pt_pass {
    PT_PASS_FORWARD,
    PT_PASS_INPUT,
    PT_PASS_WEIGHT,
    PT_PASSES
} pt_pass_t;

/* Operands of a node. AUX holds what one pass saves for another besides y: statistics that forward saves for the
 * input pass, and vector gradients of this micro-batch that the input pass computes and the weight pass adds.
 * (Added by the input pass, they would round differently in schedules whose weight pass runs later.) DX and DY are
 * derived from X and Y. */
typedef enum pt_operand {
    PT_X,
    PT_X2,
    PT_X3,
    PT_Y,
    PT_AUX,
    PT_AUX2,
    PT_AUX3,
    PT_AUX4,
    PT_NAMED_OPERANDS,
    PT_DX = PT_NAMED_OPERANDS,
    PT_DX2,
    PT_DX3,
    PT_DY,
    PT_OPERANDS
} pt_operand_t;
#define PT_USE(operand) (1u << PT_##operand)

enum { PT_NODE_INPUTS = 3, PT_NODE_ROLES = 2 };

typedef struct pt_node_pass {
    unsigned reads,
        writes; /* sets of PT_USE(operand); an operand changed in place is in both */
    pt_status_t (*run)(const pt_call_t *call, const pt_node_t *node); /* NULL: nothing */
    pt_status_t (*end)(const pt_call_t *call,
                       const pt_node_t *node); /* NULL: run completes the pass */
} pt_node_pass_t;

/* Where the gradient of an input is stored. */
typedef enum pt_gradient {
    PT_GRADIENT_OWN, /* in its own memory; written, or accumulated if the kind `adds` */
    PT_GRADIENT_IN_PLACE, /* where dy is */
    PT_GRADIENT_IS_DY     /* it is dy, unchanged */
} pt_gradient_t;

/* Which outputs may be recomputed for the weight pass instead of being kept. */
typedef enum pt_replay {
    PT_REPLAY_NEVER,
    PT_REPLAY_SELECTIVE, /* with selective recompute: cheap compared with a matrix product */
    PT_REPLAY_ALWAYS
} pt_replay_t;

typedef struct pt_node_kind {
    const char *name;
    pt_node_pass_t pass[PT_PASSES];
    pt_replay_t replay;
    pt_gradient_t gradient[PT_NODE_INPUTS];
    bool adds; /* can accumulate dx onto the contribution of another node */
    /* Derives the placement of y on `axis` from those of the inputs, and rejects inputs that the kind cannot read.
     * NULL: an element-wise kind: all inputs have the same placement, none is a partial sum, and y has it too. */
    pt_status_t (*placement)(pt_program_t *program, const pt_node_t *node,
                             pt_axis_t axis);
    /* The same for dx. NULL: dy must not be a partial sum, and dx is placed as x. */
    pt_status_t (*placement_gradient)(pt_program_t *program, const pt_node_t *node,
                                      pt_axis_t axis);
} pt_node_kind_t;

struct pt_node {
    const pt_node_kind_t *kind;
    int operand[PT_OPERANDS];      /* tensors of the block */
    pt_role_t role[PT_NODE_ROLES]; /* parameters, in the order of the kind */
    pt_norm_t norm;                /* of norms */
    pt_dropout_site_t dropout;     /* of embedding and residual */
    /* Derived: */
    bool accumulate; /* dx already holds the contribution of another reader of x */
    bool weighted;   /* it has parameters, so its weight pass has work */
    bool replayed;   /* forward is recomputed before the weight passes that read y */
};

/* Tensor 0 is none, so what a table leaves out is absent. x and y of a block are the residual stream; the backward
 * pass turns dy into dx in one buffer. */
enum {
    PT_ABSENT,
    PT_TENSOR_X,
    PT_TENSOR_Y,
    PT_TENSOR_STREAM_GRADIENT,
    PT_TENSORS_COMMON
};

typedef struct pt_block_tensor {
    const char *name; /* static; a gradient has the name of its tensor */
    bool is_gradient;
    pt_tensor_t shape; /* as planned, without memory */
    bool by_rows;      /* dimension 0 is the rows of the micro-batch */
    int host; /* the tensor whose memory it shares; PT_ABSENT: it has its own */
    int64_t first, cols, heads; /* of a view: columns of the host, split into heads */
    int gradient; /* the tensor that holds its gradient; PT_ABSENT: none */
    /* Derived: bits 1 << pass; a view's are those of its host. A recomputation counts as the weight pass. */
    unsigned written, read;
    bool replayed;
} pt_block_tensor_t;

typedef struct pt_step {
    const pt_node_t *node;
    pt_pass_t pass;
    bool again; /* forward is recomputed, from inputs that forward has left in place */
    bool ends;  /* completes what an earlier step of the node has begun */
} pt_step_t;

typedef enum pt_list {
    PT_LIST_FORWARD,
    PT_LIST_AGAIN,    /* recomputation of forward, as far as backward needs it */
    PT_LIST_BACKWARD, /* input steps, and with `fused` the weight steps */
    PT_LIST_WEIGHT,   /* weight steps; empty with `fused` */
    PT_LISTS
} pt_list_t;

enum {
    PT_PROGRAM_NODES = 32,
    PT_PROGRAM_TENSORS = 64,
    PT_LIST_STEPS = 6 * PT_PROGRAM_NODES
};

/* What determines sizes and orders. Pointers are borrowed. */
typedef struct pt_program_context {
    const pt_arch_t *arch;
    const pt_param_table_t *table;
    const pt_units_t *units;
    const pt_mesh_shape_t *mesh;
    int64_t rows;
    bool training;
    bool fused;                 /* each weight pass directly follows its input pass */
    bool selective;             /* recompute cheap outputs; only with `fused` */
    pt_dist_t x[PT_AXIS_COUNT]; /* placement of x, from the previous block */
} pt_program_context_t;

struct pt_program {
    const char *name; /* of the block, in messages */
    pt_program_context_t context;
    int layer;          /* the layer whose parameters give the sizes; -1: none */
    pt_status_t status; /* of the first call that failed; later calls do nothing */
    int nodes, tensors;
    bool has_weights; /* derived: some weight pass has work */
    pt_node_t node[PT_PROGRAM_NODES];
    pt_block_tensor_t tensor[PT_PROGRAM_TENSORS];
    int steps[PT_LISTS];
    pt_step_t list[PT_LISTS][PT_LIST_STEPS];
};

/* ---- describing a block: program.c ---- */

/* All errors are INTERNAL and come from pt_program_end. */
void pt_program_begin(const char *name, const pt_program_context_t *context, int layer,
                      pt_program_t *out);
/* Each of these adds a tensor and returns its index.
 * rows:   [rows, cols] in T, the type of activations
 * stats:  [rows], or [rows, cols] if cols > 0, in A, the type of accumulation
 * vector: [count] in `dtype`, independent of the size of the micro-batch */
int pt_program_rows(pt_program_t *program, const char *name, int64_t cols);
int pt_program_stats(pt_program_t *program, const char *name, int64_t cols);
int pt_program_vector(pt_program_t *program, const char *name, pt_dtype_t dtype,
                      int64_t count);
/* Adds a view of columns [first, first + cols) of `host`: [rows, heads, cols/heads]. */
int pt_program_view(pt_program_t *program, const char *name, int host, int64_t first,
                    int64_t cols, int64_t heads);
/* Lets `tensor` share the memory of `host`, which is computed from it in place. */
void pt_program_share(pt_program_t *program, int tensor, int host);
/* Declares a use beyond the operands (by the head): written in one pass, last read in another. */
void pt_program_use(pt_program_t *program, int tensor, pt_pass_t written,
                    pt_pass_t read);
void pt_program_add(pt_program_t *program, const pt_node_t *node);
/* Whether the model has the parameter, and the length of this rank's shard of it along `dim`: 0 is the output width
 * of a linear layer, 1 its input width. */
bool pt_program_has(const pt_program_t *program, pt_role_t role);
int64_t pt_program_size(const pt_program_t *program, pt_role_t role, int dim);

/* Derives orders, lifetimes and placements, and checks them: order.c, placement.c. */
pt_status_t pt_program_end(pt_program_t *program);
pt_status_t pt_program_order(pt_program_t *program);
pt_status_t pt_program_check_placement(pt_program_t *program);

/* Placement of a tensor on an axis of more than one rank. */
pt_dist_t pt_program_placement(const pt_program_t *program, int tensor, pt_axis_t axis);
void pt_program_set_placement(pt_program_t *program, int tensor, pt_axis_t axis,
                              pt_dist_t dist);
/* Placement of a parameter. */
pt_dist_t pt_program_placement_of(const pt_program_t *program, pt_role_t role,
                                  pt_axis_t axis);
/* Fails if the operand is a partial sum or, with dim >= 0, sharded along `dim`. An absent operand passes. */
pt_status_t pt_program_expect_whole(const pt_program_t *program, const pt_node_t *node,
                                    pt_operand_t operand, pt_axis_t axis, int dim);

/* ---- kinds: nodes/ ---- */

/* x -> y = norm(x), with the weights of `weight`, and of `bias` where the model has it. */
void pt_add_norm(pt_program_t *program, int x, int y, pt_role_t weight, pt_role_t bias);
/* The RMS norm of each head of the view x. */
void pt_add_head_norm(pt_program_t *program, int x, int y, pt_role_t weight);
/* y = x·Wᵀ + bias. */
void pt_add_linear(pt_program_t *program, int x, int y, pt_role_t weight,
                   pt_role_t bias);
/* Rotates the heads of the view x in place (rotary positions); adds no node to a model without them. */
void pt_add_rotary(pt_program_t *program, int x);
/* y = attention of the views q, k, v. */
void pt_add_attend(pt_program_t *program, int q, int k, int v, int y);
/* y = activation(x + bias); the bias is added to x in place. */
void pt_add_activate(pt_program_t *program, int x, int y, pt_role_t bias);
/* y = past + dropout(branch + bias), in the memory of the branch. */
void pt_add_residual(pt_program_t *program, int past, int branch, int y, pt_role_t bias,
                     pt_dropout_site_t site);

/* ---- blocks: blocks/ ---- */

void pt_describe_embedding(pt_program_t *program);
void pt_describe_attention(pt_program_t *program);
void pt_describe_ffn(pt_program_t *program);
void pt_describe_head(pt_program_t *program);

#endif
