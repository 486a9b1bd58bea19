# What depends on realised tensors alone.
lathe_tests(constants_tests core view graph TESTS unit/constants_test unit/small_constants_test)
# Small matrices along axes, and the algorithms of Winograd and Strassen made of them.
lathe_test(unit/transform_test core view ast graph lower search)
lathe_tests(form_tests TESTS unit/winograd_test unit/strassen_test unit/three_bytes_test unit/storage_order_test unit/folded_program_test)
