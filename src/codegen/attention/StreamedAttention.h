//===- StreamedAttention.h - attention of few queries -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Where a token is decoded, each key and value of a cache is used for a query
// or a few. Keys and values are read where they lie, since a copy would cost
// more than the products; reading them once takes nearly all the time.
// Processors fetch ahead what is read in a row, so the blocks of keys are
// large: each change from keys to values stops the fetching.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_ATTENTION_STREAMEDATTENTION_H
#define ANABRANCH_CODEGEN_ATTENTION_STREAMEDATTENTION_H

#include "codegen/attention/BlockProducts.h"
#include "codegen/attention/PairPacking.h"
#include "codegen/microkernel/WordProduct.h"

namespace anabranch {
namespace codegen {

class StreamedAttention : public BlockProducts {
public:
  explicit StreamedAttention(AttentionContext &attention);

  void begin() override;
  /// Takes a vector of keys at a time.
  void score(const AttentionContext::RowBlock &rows,
             const AttentionContext::KeyBlock &keys) override;
  /// Keeps the output in registers.
  void mix(const AttentionContext::RowBlock &rows,
           const AttentionContext::KeyBlock &keys) override;

private:
  /// Rows and columns of the output that are in registers.
  struct Part {
    mlir::Value firstRow;
    int64_t rows;
    int64_t firstColumn, endColumn;
  };

  PairPacking packing;
  WordProduct product;

  /// Keys of one multiply-add of the output.
  int64_t perWord() const {
    return attention.blocking.usesDots ? PairPacking::perWord : 1;
  }
  mlir::Value keyWords(mlir::Value key, int64_t at);
  mlir::Value valueWords(const AttentionContext::KeyBlock &keys,
                         mlir::Value word, int64_t at, bool whole);
  void scoreKeys(mlir::Value group, llvm::ArrayRef<mlir::Value> keys);
  void mixPart(const Part &part, const AttentionContext::KeyBlock &keys);
  mlir::SmallVector<mlir::Value> mixWord(const Part &part,
                                         const AttentionContext::KeyBlock &keys,
                                         mlir::Value word, bool whole,
                                         mlir::ValueRange before);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_STREAMEDATTENTION_H
