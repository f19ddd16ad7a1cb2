//===- AnabranchDialect.td - the dialect, its attributes ---*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_ANABRANCHDIALECT_TD
#define ANABRANCH_IR_ANABRANCHDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def AnabranchDialect : Dialect {
  let name = "anabranch";
  let cppNamespace = "::anabranch::ir";
  let summary = "Operations on models that linalg, tensor, arith and scf lack";
  let description = [{
    The dialect has two halves. `AtenOps.td` stands between capture and linalg:
    an operator of ATen as a call on tensors, and the few tensor operators that
    linalg cannot express (scatter, scan, attention). `ScheduleOps.td` stands
    between linalg and machine code: dispatches, and the program as command
    lists over buffers.

    All integer and bool types are signless. What PyTorch calls uint8 is `i8`;
    `anabranch.aten` says which of its operands and results are unsigned. `i1`
    is PyTorch's bool; in memory it is one byte, 0 or 1.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Whether refusals are reported (ir/Explain.h).
    bool isExplaining() const { return explaining; }
    void setExplaining(bool wanted) { explaining = wanted; }

  private:
    bool explaining = false;
  }];
}

class Anabranch_Attr<string name, string attrMnemonic>
    : AttrDef<AnabranchDialect, name> {
  let mnemonic = attrMnemonic;
}

def Anabranch_OperandAttr : Anabranch_Attr<"OperandRef", "operand"> {
  let summary = "stands for an operand among the arguments of an ATen call";
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

#endif
