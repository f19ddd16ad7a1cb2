/* A client of the C API in plain C, as the tests run it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "anabranch/anabranch.h"

#include <stdlib.h>

static void *allocate(void *context, size_t index,
                      const anabranch_tensor *tensor) {
  float **outputs = context;
  size_t count = 1;
  for (int32_t d = 0; d < tensor->rank; ++d)
    count *= (size_t)tensor->shape[d];
  return outputs[index] = malloc(count * sizeof(float));
}

/* Runs a program with one input and one output of `count` floats. Returns the
 * status, or null with the sum of the output in `sum`. */
anabranch_status *anabranch_test_client(const char *path, float *values,
                                        int64_t count, float *sum) {
  anabranch_executable *executable;
  anabranch_status *status = anabranch_open(path, NULL, &executable);
  if (status)
    return status;
  anabranch_input input = {
      ANABRANCH_INPUT_TENSOR, {values, &count, NULL, 1, ANABRANCH_F32}, 0};
  anabranch_output output;
  float *results[1] = {NULL};
  status = anabranch_run(executable, &input, 1, &output, 1, allocate, results);
  *sum = 0;
  for (int64_t i = 0; !status && i < count; ++i)
    *sum += results[0][i];
  free(results[0]);
  anabranch_close(executable);
  return status;
}
