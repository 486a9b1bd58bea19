lathe_test(unit/c_device_test core view ast render runtime)
