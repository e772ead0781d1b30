"""The one part of the build that a table can't say: the compiled accelerator is optional.

Without a C compiler the package installs all the same and the Python twin does the work; `millstream doctor`
says which of the two is in use.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "millstream.codec._accelerator",
            ["src/millstream/codec/_accelerator.c"],
            py_limited_api=True,
            optional=True,
        )
    ]
)
