# What depends on realised tensors alone.
lathe_test(unit/constants_test core view graph)
lathe_test(unit/folded_program_test)
