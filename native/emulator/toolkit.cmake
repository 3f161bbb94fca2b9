# The toolkit folder beside lib64/, laid out as CANN's: version files and the folders that torch_npu looks for.
set(NPU_CANN_MAJOR 9)
set(NPU_CANN_MINOR 0)
set(NPU_CANN_PATCH 0)
set(NPU_CANN_VERSION "${NPU_CANN_MAJOR}.${NPU_CANN_MINOR}.${NPU_CANN_PATCH}")

function(npu_toolkit_folder)
    string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" arch)
    set(info "package_name=Ascend-cann-emulator\nversion=${NPU_CANN_VERSION}\narch=${arch}\nos=linux\n")
    # torch_npu's collect_env reads the version from ascend_*_install.info; CANN has version.info in each part.
    foreach(file IN ITEMS version.info ascend_toolkit_install.info runtime/version.info compiler/version.info
                          opp/version.info)
        file(GENERATE OUTPUT "${NPU_CANN_DIR}/${file}" CONTENT "${info}")
        cmake_path(GET file PARENT_PATH folder)
        install(FILES "${NPU_CANN_DIR}/${file}" DESTINATION "cann/${folder}")
    endforeach()
endfunction()

# npu_forwarding_library(<SONAME> <target>...): a library of CANN whose functions another library exports.
function(npu_forwarding_library soname)
    string(REGEX REPLACE "^lib" "" name "${soname}")
    npu_emulated_library(${name} SONAME ${soname} SOURCES "${CMAKE_SOURCE_DIR}/emulator/forwarding.cpp")
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed ${ARGN})
endfunction()
