/* The compiled twin of codec/scan.py: the same walk over a payload's records, for the hot paths.
 *
 * Why: a produce request of a megabyte holds ten thousand records, and each has to be looked at before it is
 * acknowledged; Python takes milliseconds for what takes microseconds here.
 * Invariants: never reads outside the buffer; accepts exactly what the Python twin accepts (a property test holds
 * the two together). What it can't accept it only reports: the twin then finds the words for it.
 * Uses the limited API, so one build serves every Python from 3.11 on.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

typedef struct {
    Py_ssize_t start, end;
    int64_t timestamp_delta;
    int32_t offset_delta;
    Py_ssize_t key_start, key_length; /* length -1: null */
    Py_ssize_t value_start, value_length;
} Span;

/* Reads a zigzag varint of at most `bytes_max` bytes; returns the next position, or -1. */
static inline Py_ssize_t
read_zigzag(const uint8_t *data, Py_ssize_t position, Py_ssize_t size, int bytes_max, int64_t *value)
{
    uint64_t raw = 0;
    for (int index = 0; index < bytes_max; index++) {
        if (position >= size)
            return -1;
        uint8_t byte = data[position++];
        raw |= (uint64_t)(byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            if (bytes_max == 5 && raw > UINT32_MAX)
                return -1;
            if (index == 9 && byte > 1)
                return -1;
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return position;
        }
    }
    return -1;
}

#define INT_BYTES 5
#define LONG_BYTES 10

static Py_ssize_t
skip_headers(const uint8_t *data, Py_ssize_t position, Py_ssize_t end)
{
    int64_t count, length;
    if ((position = read_zigzag(data, position, end, INT_BYTES, &count)) < 0)
        return -1;
    if (count < 0 || count * 2 > end - position)
        return -1;
    for (int64_t index = 0; index < count; index++) {
        if ((position = read_zigzag(data, position, end, INT_BYTES, &length)) < 0)
            return -1;
        if (length < 0 || length > end - position)
            return -1;
        position += (Py_ssize_t)length;
        if ((position = read_zigzag(data, position, end, INT_BYTES, &length)) < 0)
            return -1;
        if (length < -1 || length > end - position)
            return -1;
        if (length > 0)
            position += (Py_ssize_t)length;
    }
    return position;
}

/* Walks one record; returns where the next begins, or -1. */
static Py_ssize_t
walk(const uint8_t *data, Py_ssize_t position, Py_ssize_t size, Span *span)
{
    int64_t length, value;
    span->start = position;
    if ((position = read_zigzag(data, position, size, INT_BYTES, &length)) < 0)
        return -1;
    if (length < 0 || length > size - position)
        return -1;
    Py_ssize_t end = span->end = position + (Py_ssize_t)length;
    if (position >= end)
        return -1;
    position++; /* attributes, of which none is in use */
    if ((position = read_zigzag(data, position, end, LONG_BYTES, &span->timestamp_delta)) < 0)
        return -1;
    if ((position = read_zigzag(data, position, end, INT_BYTES, &value)) < 0)
        return -1;
    span->offset_delta = (int32_t)value;
    if ((position = read_zigzag(data, position, end, INT_BYTES, &value)) < 0)
        return -1;
    if (value < -1 || value > end - position)
        return -1;
    span->key_start = position;
    span->key_length = (Py_ssize_t)value;
    if (value > 0)
        position += (Py_ssize_t)value;
    if ((position = read_zigzag(data, position, end, INT_BYTES, &value)) < 0)
        return -1;
    if (value < -1 || value > end - position)
        return -1;
    span->value_start = position;
    span->value_length = (Py_ssize_t)value;
    if (value > 0)
        position += (Py_ssize_t)value;
    if ((position = skip_headers(data, position, end)) < 0)
        return -1;
    return position == end ? end : -1;
}

PyDoc_STRVAR(are_records_doc,
"are_records(payload, count, need_keys) -> bool\n\n"
"Whether the payload is exactly `count` records with offset deltas 0, 1, 2, ..., each with a key if needed.");

static PyObject *
are_records(PyObject *module, PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t count;
    int need_keys;
    if (!PyArg_ParseTuple(args, "y*np", &buffer, &count, &need_keys))
        return NULL;
    const uint8_t *data = buffer.buf;
    Py_ssize_t position = 0, index = 0;
    Span span;
    for (; index < count; index++) {
        position = walk(data, position, buffer.len, &span);
        if (position < 0 || span.offset_delta != index || (need_keys && span.key_length < 0))
            break;
    }
    int good = index == count && position == buffer.len;
    PyBuffer_Release(&buffer);
    return PyBool_FromLong(good);
}

PyDoc_STRVAR(scan_records_doc,
"scan_records(payload, count) -> list of spans, or None\n\n"
"The spans of exactly `count` records that fill the payload; None if they don't.");

static PyObject *
make_span(const uint8_t *data, const Span *span)
{
    PyObject *key;
    if (span->key_length < 0) {
        Py_INCREF(Py_None);
        key = Py_None;
    } else {
        key = PyBytes_FromStringAndSize((const char *)data + span->key_start, span->key_length);
        if (key == NULL)
            return NULL;
    }
    Py_ssize_t value_end = span->value_length < 0 ? -1 : span->value_start + span->value_length;
    return Py_BuildValue("(nnLiNnn)", span->start, span->end, (long long)span->timestamp_delta,
                         (int)span->offset_delta, key, span->value_start, value_end);
}

static PyObject *
scan_records(PyObject *module, PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "y*n", &buffer, &count))
        return NULL;
    const uint8_t *data = buffer.buf;
    Py_ssize_t position = 0;
    PyObject *spans = PyList_New(0);
    for (Py_ssize_t index = 0; spans != NULL && index < count; index++) {
        Span span;
        position = walk(data, position, buffer.len, &span);
        if (position < 0)
            break;
        PyObject *made = make_span(data, &span);
        if (made == NULL || PyList_Append(spans, made) < 0)
            Py_CLEAR(spans);
        Py_XDECREF(made);
    }
    int good = position == buffer.len;
    PyBuffer_Release(&buffer);
    if (spans != NULL && !good) {
        Py_DECREF(spans);
        Py_RETURN_NONE;
    }
    return spans;
}

static PyMethodDef methods[] = {
    {"are_records", are_records, METH_VARARGS, are_records_doc},
    {"scan_records", scan_records, METH_VARARGS, scan_records_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_accelerator", "The compiled twin of codec/scan.py.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__accelerator(void)
{
    return PyModule_Create(&module);
}
