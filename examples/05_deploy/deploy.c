/* deploy.c: a C program that runs a package.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: deploy_c PACKAGE. Every input is filled with zeros, or with the first
 * value of a state; dynamic sizes are 8. Prints names and shapes of the
 * results.
 */
#include <anabranch/anabranch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANY_SIZE = 8, MOST_DIMENSIONS = 64 };

/* Memory for one output; freed by main. */
static void *allocate(void *context, size_t index,
                      const anabranch_tensor *tensor) {
  const anabranch_executable *executable = context;
  anabranch_value_info info;
  anabranch_status_free(anabranch_describe_output(executable, index, &info));
  size_t bytes = anabranch_item_size(tensor->dtype);
  printf("%s:", info.name);
  for (int32_t d = 0; d < tensor->rank; ++d) {
    printf(" %lld", (long long)tensor->shape[d]);
    bytes *= (size_t)tensor->shape[d];
  }
  printf("\n");
  return malloc(bytes ? bytes : 1);
}

/* An input of the kind that the package asks for. */
static anabranch_input make_input(const anabranch_value_info *info,
                                  int64_t *shape) {
  anabranch_input input = {0};
  input.kind = info->kind;
  input.scalar = ANY_SIZE;
  size_t bytes = anabranch_item_size(info->dtype);
  for (int32_t d = 0; d < info->rank; ++d) {
    shape[d] = info->shape[d] < 0 ? ANY_SIZE : info->shape[d];
    bytes *= (size_t)shape[d];
  }
  input.tensor.shape = shape;
  input.tensor.rank = info->rank;
  input.tensor.dtype = info->dtype;
  input.tensor.data = calloc(bytes ? bytes : 1, 1);
  if (info->initial && input.tensor.data)
    memcpy(input.tensor.data, info->initial, bytes);
  return input;
}

static int finish(anabranch_status *status) {
  int failed = status != NULL;
  if (failed)
    fprintf(stderr, "%s\n", anabranch_status_message(status));
  anabranch_status_free(status);
  return failed;
}

static int run(const anabranch_executable *executable) {
  size_t input_count = anabranch_input_count(executable);
  size_t output_count = anabranch_output_count(executable);
  anabranch_input *inputs = calloc(input_count + 1, sizeof(*inputs));
  anabranch_output *outputs = calloc(output_count + 1, sizeof(*outputs));
  int64_t(*shapes)[MOST_DIMENSIONS] = calloc(input_count + 1, sizeof(*shapes));
  int failed = !inputs || !outputs || !shapes;
  for (size_t i = 0; i < input_count && !failed; ++i) {
    anabranch_value_info info;
    failed = finish(anabranch_describe_input(executable, i, &info));
    if (!failed)
      inputs[i] = make_input(&info, shapes[i]);
  }
  if (!failed)
    failed = finish(anabranch_run(executable, inputs, input_count, outputs,
                                  output_count, allocate, (void *)executable));
  for (size_t i = 0; inputs && i < input_count; ++i)
    free(inputs[i].tensor.data);
  for (size_t i = 0; !failed && i < output_count; ++i)
    if (outputs[i].kind == ANABRANCH_OUTPUT_TENSOR)
      free(outputs[i].tensor.data);
  free(inputs);
  free(outputs);
  free(shapes);
  return failed;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: deploy_c PACKAGE\n");
    return 2;
  }
  anabranch_executable *executable = NULL;
  if (finish(anabranch_open(argv[1], NULL, &executable)))
    return 1;
  int failed = run(executable);
  anabranch_close(executable);
  return failed;
}
