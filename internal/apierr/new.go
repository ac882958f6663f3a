package apierr

// New makes an error; hint may be empty.
func New(c Code, op, message, hint string) *Error {
	return &Error{Code: c, Op: op, Message: message, Hint: hint}
}

// Wrap makes an error of its cause, whose text becomes the message.
func Wrap(c Code, op string, err error) *Error {
	return &Error{Code: c, Op: op, Message: err.Error(), Err: err}
}
